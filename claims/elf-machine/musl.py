#!/usr/bin/env python3
"""Writes twenty C programs with large tables of pointers, for `run` to link with musl. usage: musl.py DIRECTORY"""
import random, sys

chance = random.Random(5)
for number in range(20):
    pointers = chance.choice([1500, 3000, 7000, 20000, 60000])
    count = pointers // 3
    with open(f"{sys.argv[1]}/m{number}.c", "w") as out:
        out.write("#include <stdio.h>\nstruct item { const char *name; int (*call)(int); struct item *next; "
                  f"long data[{chance.randrange(0, 5)}]; }};\n")
        for call in range(40):
            out.write(f"static int f{call}(int x) {{ return x * {call} + {number}; }}\n")
        out.write("extern struct item items[];\nstruct item items[] = {\n")
        for item in range(count):
            other = f"&items[{chance.randrange(count)}]" if chance.random() < .7 else "0"
            out.write(f'{{ "n{item}", f{chance.randrange(40)}, {other} }},\n')
        out.write("};\nint main(void) { long sum = 0; "
                  f"for (int i = 0; i < {count}; i++) sum += items[i].call(i) + items[i].name[0] + "
                  "(items[i].next ? items[i].next->name[1] : 0); "
                  'printf("%ld\\n", sum); return 0; }\n')
