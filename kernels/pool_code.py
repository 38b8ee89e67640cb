"""The compiled half of the thread pool: what its threads do without Python's lock.

One block of memory, ``control``, is shared by the threads. It holds a table of jobs, pairs of words (address of an
entry ``void(intptr_t)``, its argument), and one word that says which of them are still to be taken:

    bits 40 to 63   number of the region, so that no thread takes a job by what it knows of an earlier region
    bits 28 to 39   how many workers may take part; worker ``n`` may if n is less
    bits 14 to 27   the first job that nobody has taken
    bits  0 to 13   the last of these + 1

The caller takes jobs from the front and workers from the back, each by a compare-and-swap of that word. So a worker
that is late, asleep or without a core costs nothing: the caller does the jobs itself, and waits only for those that a
worker has begun. And a thread meets the same part of the arrays in one region after another, while its cache has it.

A worker that finds nothing spins for a short time and then sleeps on a lock of its own. It says so before it looks at
the word for a last time, and who publishes jobs writes the word before it looks who sleeps; so one sees the other.

The functions below are compiled by `machine_words`: all values are words of 64 bits.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools

from jitgrad.kernels.machine_words import FLUSH, compiled_words

__all__ = [
    "ARRAY", "BLOCK", "BUSY", "CONTROL_BYTES", "CUT", "DATA", "FIRST", "GENERATION", "GIVE_WAY", "LAST", "MOST_PARTS",
    "MOST_WORKERS", "NAP", "PART", "PARTS", "RELEASE", "SCALAR", "SPINS", "STOP", "TYPE", "WAIT", "WORKERS",
    "WORKER_BYTES", "compiled_pool",
]  # fmt: skip

# Places of words in ``control``, in bytes. What different threads write lies 128 bytes apart: two cache lines, which
# some processors fetch together.
TABLE, LEFT, BUSY, STOP = 128, 256, 384, 512
WAIT, RELEASE, GIVE_WAY, SPINS, NAP = 640, 648, 656, 664, 672  # three functions' addresses, a number, a lock
HELD = 392  # whether the caller of `claim` has a job
MODE = 136  # the caller's float mode, which workers have while they do his jobs
GENERATION = 144  # of `threads`: compiled calls that were made for another number of threads refuse
WORKERS, WORKER_BYTES, MOST_WORKERS = 768, 128, 512  # of each worker: whether it sleeps, its lock
PARTS_TABLE, MOST_PARTS = WORKERS + WORKER_BYTES * MOST_WORKERS, 256
BLOCKS, BLOCK = PARTS_TABLE + 16 * MOST_PARTS, 2048  # the arguments of a part, in so many bytes
CONTROL_BYTES = BLOCKS + MOST_PARTS * BLOCK

FIELD, HELPERS, REGIONS = (1 << 14) - 1, (1 << 12) - 1, (1 << 24) - 1
# Rounds of a caller's wait that only spin, and those that give way to other threads; after them it sleeps in between.
SPINNING, YIELDING, NAP_MICROSECONDS = 400, 1000, 50
# How an argument of a kernel is handed to a part: an array as it is, or its rows of the part; a number as it is, or
# instead of it the part's first row, its last row + 1, the part's number, how many parts there are.
ARRAY, CUT, SCALAR, FIRST, LAST, PART, PARTS = range(7)
# Where NumPy's array object has the address of its numbers, that of its sizes, and that of its strides. NumPy publishes
# the order of these fields in its C headers, and every extension has it compiled in.
DATA = object.__basicsize__
TYPE = DATA - 8  # where any object has the address of its type
SIZES, STRIDES = DATA + 16, DATA + 24


def run_job(control, number):
    job = load(control + TABLE) + 16 * number
    call(read(job), read(job + 8))
    subtract(control + LEFT, 1)


def take_first(control):
    """The number of the first job that is left, which is the caller's now; -1: none is."""
    while True:
        word = load(control)
        first = (word >> 14) & FIELD
        if first >= word & FIELD:
            return -1
        if swap(control, word, word + (1 << 14)):
            return first


def has_jobs(word, worker):
    """Whether this worker may take a job."""
    if (word >> 28) & HELPERS > worker:
        if (word >> 14) & FIELD < word & FIELD:
            return 1
    return 0


def sleep(control, worker):
    """Wait for the lock of a worker, unless there are jobs."""
    place = control + WORKERS + WORKER_BYTES * worker
    store(place, 1)
    if has_jobs(load(control), worker) or load(control + STOP):
        # Another thread that has taken the mark away already releases the lock as well.
        if swap(place, 1, 0):
            return
    wait(load(control + WAIT), load(place + 8), -1)


def serve(control, worker):
    """Do jobs until the pool stops."""
    spins = 0
    while True:
        word = load(control)
        if has_jobs(word, worker):
            if swap(control, word, word - 1):
                set_float_mode(load(control + MODE))
                run_job(control, (word & FIELD) - 1)
            spins = 0
        elif load(control + STOP):
            return
        elif spins < load(control + SPINS):
            spins += 1
            spin_hint()
            if spins & 31 == 0:
                give_way(load(control + GIVE_WAY))
        else:
            sleep(control, worker)
            spins = 0


def wake(control, helpers):
    for worker in range(helpers):
        place = control + WORKERS + WORKER_BYTES * worker
        if load(place) and swap(place, 1, 0):
            call(load(control + RELEASE), load(place + 8))


def publish(control, table, count, helpers):
    """Let up to ``helpers`` workers begin with the jobs of a table."""
    store(control + TABLE, table)
    store(control + MODE, float_mode())
    store(control + LEFT, count)
    region = ((load(control) >> 40) + 1) & REGIONS
    store(control, region << 40 | helpers << 28 | count)
    if helpers >= count:
        helpers = count - 1
    wake(control, helpers)


def wait_for_workers(control):
    """Until they have done what they took: in a loop at first, then giving way, then sleeping in between."""
    spins = 0
    while load(control + LEFT):
        spins += 1
        if spins < SPINNING:
            spin_hint()
        elif spins < YIELDING:
            give_way(load(control + GIVE_WAY))
        else:
            wait(load(control + WAIT), load(control + NAP), NAP_MICROSECONDS)


def run_table(control, table, count, helpers):
    """Run the jobs of a table on this thread and up to ``helpers`` workers."""
    publish(control, table, count, helpers)
    number = take_first(control)
    while number >= 0:
        run_job(control, number)
        number = take_first(control)
    wait_for_workers(control)


def write_array(at, array, plan, cut, first, last):
    """Numba's struct of an array, from Python's object. Returns the bytes that it takes."""
    # Two owners, of which a loop needs none; size, itemsize, address, shape, strides.
    dims, size, data = read(plan + 8), 1, read(array + DATA)
    sizes, strides = read(array + SIZES), read(array + STRIDES)
    for d in range(dims):
        extent = read(sizes + 8 * d)
        if d == 0 and cut:
            extent = last - first
            data += first * read(strides)
        size *= extent
        write(at + 40 + 8 * d, extent)
        write(at + 40 + 8 * (dims + d), read(strides + 8 * d))
    write(at, 0)
    write(at + 8, 0)
    write(at + 16, size)
    write(at + 24, read(plan + 16))
    write(at + 32, data)
    return 40 + 16 * dims


def write_arguments(block, plan, given, part, parts, first, last):
    """What the entry of a kernel reads: the kernel's address, a word for its error, its arguments."""
    write(block, read(plan))
    at, count = block + 16, read(plan + 16)
    plan += 24
    for k in range(count):
        role, value = read(plan), read(given + 8 * k)
        if role <= CUT:
            at += write_array(at, value, plan, role == CUT, first, last)
        else:
            if role == FIRST:
                value = first
            elif role == LAST:
                value = last
            elif role == PART:
                value = part
            elif role == PARTS:
                value = parts
            write(at, value)
            at += 8
        plan += 24


def split(packed):
    """Run a kernel in parts. ``packed``: control, helpers, plan, rows, parts, multiple, then a word for each argument.

    The plan: addresses of kernel and entry, number of arguments; for each of these role, dims, itemsize. An array's
    word is the address of Python's object. All parts but the last end at a multiple of ``multiple`` rows.
    Returns 0; -1 if the pool is busy, where nothing was done; else what `native_entry.raise_error` takes.
    """
    control, helpers, plan = read(packed), read(packed + 8), read(packed + 16)
    rows, parts, multiple = read(packed + 24), read(packed + 32), read(packed + 40)
    if not swap(control + BUSY, 0, 1):
        return -1
    first, block = 0, control + BLOCKS
    for part in range(parts):
        last = rows * (part + 1) // parts // multiple * multiple
        if part == parts - 1:
            last = rows
        write_arguments(block, plan, packed + 48, part, parts, first, last)
        write(control + PARTS_TABLE + 16 * part, read(plan + 8))
        write(control + PARTS_TABLE + 16 * part + 8, block)
        block += BLOCK
        first = last
    run_table(control, control + PARTS_TABLE, parts, helpers)
    error, block = 0, control + BLOCKS
    for _ in range(parts):
        if error == 0:
            error = read(block + 8)
        block += BLOCK
    store(control + BUSY, 0)
    return error


def run_taken(words):
    """Do the jobs of a table, for who has taken the pool. ``words``: control, number of jobs, table, helpers."""
    run_table(read(words), read(words + 16), read(words + 8), read(words + 24))


def run(control, jobs, count, helpers):
    """Do the jobs of a table; 0 if the pool is busy, where nothing was done."""
    if swap(control + BUSY, 0, 1):
        run_table(control, jobs, count, helpers)
        store(control + BUSY, 0)
        return 1
    return 0


def start(control, jobs, count, helpers):
    """Let workers begin with jobs of which the caller claims its own; whether the pool wasn't busy.

    ``jobs``: a word that becomes 1, by which `finish` knows that there is something to end, then the table.
    """
    if swap(control + BUSY, 0, 1):
        write(jobs, 1)
        write(control + HELD, 0)
        publish(control, jobs + 8, count, helpers)
        return 1
    return 0


def put_down(control):
    """Count the caller's job as done, if it has one."""
    if read(control + HELD):
        write(control + HELD, 0)
        subtract(control + LEFT, 1)


def claim(control):
    """The number of the caller's next job, -1 if all are taken; what it claimed before is done."""
    put_down(control)
    number = take_first(control)
    write(control + HELD, number >= 0)
    return number


def finish(control, jobs):
    """End what `start` began: jobs that are left are not done, and those in workers' hands are waited for."""
    if read(jobs):
        put_down(control)
        while take_first(control) >= 0:
            subtract(control + LEFT, 1)
        wait_for_workers(control)
        store(control + BUSY, 0)


def stop(control):
    """Let all workers return."""
    store(control + STOP, 1)
    wake(control, MOST_WORKERS)


def spin(rounds):
    for _ in range(rounds):
        spin_hint()


def flush(on):
    """Let this thread take denormal numbers for zero (1), or not any more (0)."""
    word = float_mode()
    set_float_mode(word - (word & FLUSH) + FLUSH * on)


@functools.cache
def compiled_pool():
    """The addresses of the functions above, by name."""
    helpers = [
        run_job, take_first, has_jobs, sleep, wake, publish, wait_for_workers, run_table, write_array, write_arguments,
        put_down,
    ]  # fmt: skip
    return compiled_words("pool", [serve, split, run, run_taken, start, claim, finish, stop, spin, flush], helpers)
