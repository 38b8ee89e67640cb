"""From rules and loops to source text: what a rule may say, how it is emitted, what a kernel module contains."""
