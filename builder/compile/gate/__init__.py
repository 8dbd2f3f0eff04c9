"""The gate in front of the compilers' own programs: each runs when its memory fits, and is measured.

What takes memory in a CUDA build are cicc, ptxas, cudafe++ and cc1plus. Under sccache they are children of its server,
so nothing in front of nvcc can see or hold them. The toolchain therefore puts a stub in place of each (`stubs.py`), and
the stub runs this file as a script: one run is one *step*, which waits for admission, runs the real program, and
appends one line to the log.

There is no daemon. A step is a ticket, a file in one folder that its process holds locked; the child holds it too, so
a ticket stands for as long as anything of it lives, and is void afterwards. Who may start is decided by whoever asks,
under one lock, by `admits`. Expectations can be wrong, so each step also watches what is free while it runs: when
memory becomes short the younger steps pause, and if that is not enough the youngest gives its memory back and
starts again later. One that the kernel killed all the same runs again with the machine to itself.

It starts with every step of a build, so it imports nothing that takes time: no dataclasses, json or pathlib
(10 ms instead of 40). It must never fail a compile: where the gate cannot work, the program simply runs.
"""
