"""made_set.py - what the ggufs.py of the sets beside this folder share.

A set is a folder of tests/llm with a make.py (directories as the Hub has them) and a ggufs.py (what llama.cpp's converter makes of them).
"""
import importlib.util, os, shutil, sys

ARCHS = os.path.dirname(os.path.abspath(__file__))


def load(name):
    spec = importlib.util.spec_from_file_location(f"archs_{name}", f"{ARCHS}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ggufs = load("ggufs")


def pack(set_folder, root):
    """The lists without the GGUFs, as SET-ggufs.tar.xz in the set's folder."""
    for name in os.listdir(root):
        if name.endswith(".gguf"):
            os.unlink(f"{root}/{name}")
    make = load("make")
    make.HERE = set_folder
    make.pack(root, f"{os.path.basename(set_folder)}-ggufs.tar.xz")


def main(file, args, wears, dresses={}, pre={}, load_hparams=None):
    """ggufs.py of a set, whose path is `file`. wears: prefixes of directories and their tokenizers, the first that fits; dresses: tokenizers
    that only this set has, with the converter's names of their pre-tokenizers in `pre`; load_hparams: makes the converter's reader of
    config.json from its module `base`."""
    set_folder = os.path.dirname(os.path.abspath(file))
    if args[0] == "--pack":
        return pack(set_folder, args[1])
    known = {**ggufs.DRESSES, **dresses}
    ggufs.WEARS, ggufs.MORE, ggufs.PRE = wears, [], {**ggufs.PRE, **pre}
    ggufs.DRESSES = {name: known[name] for name in {dress for _, dress in wears}}
    if load_hparams:
        sys.path[:0] = [args[0], f"{args[0]}/gguf-py"]
        from conversion import base

        ggufs.LOAD[0] = load_hparams(base)
    shutil.rmtree(args[2], ignore_errors=True)
    ggufs.main(*args)
