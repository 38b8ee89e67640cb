"""Programs as lists of statements: grown with torch's consent, run by both libraries, made short where they differ."""

import warnings

import jitgrad


def execute(library, setup, statements):
    """The variables that a program leaves, by name."""
    scope = {"torch": library}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(setup, scope)
        for statement in statements:
            exec(statement, scope)
    return scope


def tensors(library, scope):
    """The tensors among a program's variables, by name, in the order in which they were made."""
    return {name: v for name, v in scope.items() if isinstance(v, library.Tensor)}


class Growing:
    """A program that grows by statements which torch accepts and whose results ``allowed(scope)`` accepts."""

    def __init__(self, library, setup, allowed):
        self.library, self.setup, self.allowed = library, setup, allowed
        self.statements = []
        self.scope = execute(library, setup, [])

    def add(self, statement):
        """Append a statement if it is accepted; whether it was."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(statement, self.scope)
                accepted = self.allowed(self.scope)
        except Exception:
            accepted = False
        if accepted:
            self.statements.append(statement)
        else:  # it may have changed something before it failed
            self.scope = execute(self.library, self.setup, self.statements)
        return accepted


def difference(peer, setup, statements, observe, compare):
    """What ``compare(ours, theirs)`` says of ``observe(library, scope)`` after a program; "" if they agree.

    A program that torch, the ``peer``, does not run to its end is no difference.
    """
    try:
        theirs = observe(peer, execute(peer, setup, statements))
    except Exception:
        return ""
    try:
        ours = observe(jitgrad, execute(jitgrad, setup, statements))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return compare(ours, theirs)


def sensitive(peer, setup, statements, nudges, observe, compare):
    """Whether ``compare`` finds a difference already where ``peer`` runs a program with one of some ``nudges``.

    A nudge, statements that follow the setup, changes numbers by what rounding might. What differs then depends on
    rounding in the peer itself: on the side of 0 that a difference of equal numbers comes to lie on before a ReLU, say.
    """
    usual = observe(peer, execute(peer, setup, statements))
    return any(compare(observe(peer, execute(peer, setup + nudge, statements)), usual) for nudge in nudges)


def shortened(statements, differs):
    """A shorter program that ``differs`` still: statements are left out, one after the other, from the end."""
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(statements))):
            fewer = statements[:k] + statements[k + 1 :]
            if differs(fewer):
                statements, changed = fewer, True
    return statements
