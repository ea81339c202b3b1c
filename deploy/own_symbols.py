"""Makes the C++ symbols that are unique in a process unique in the wheel only.

    own_symbols.py FILE...     shared libraries, changed in place

The loader keeps one definition in a whole process of a symbol bound STB_GNU_UNIQUE (an inline variable, a static of an
inline function), in whatever library and by whatever dlopen mode. gRPC and protobuf keep their singletons in such, so
two versions in one process would share them. Bound weakly they are found like all other symbols: in the scope that the
wheel's libraries were loaded in.
"""

import sys

from elftools.elf.elffile import ELFFile

STB_WEAK = 2
STB_GNU_UNIQUE = 10
INFO_OFFSET = 4  # of st_info in an Elf64_Sym


def own(path):
    places = []
    with open(path, "rb") as file:
        elf = ELFFile(file)
        if elf.elfclass != 64:
            raise SystemExit(f"own_symbols.py: {path} is not a 64-bit library")
        table = elf.get_section_by_name(".dynsym")
        for number in range(table.num_symbols()):
            place = table["sh_offset"] + number * table["sh_entsize"] + INFO_OFFSET
            file.seek(place)
            info = file.read(1)[0]
            if info >> 4 == STB_GNU_UNIQUE:
                places.append((place, STB_WEAK << 4 | info & 15))
    with open(path, "r+b") as file:
        for place, info in places:
            file.seek(place)
            file.write(bytes([info]))
    return len(places)


if __name__ == "__main__":
    print("own symbols:", sum(own(path) for path in sys.argv[1:]))
