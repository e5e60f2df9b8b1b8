#!/usr/bin/env python3
"""greedy-authors.py FOLDER - what the authors' code continues with where zt and llama.cpp part (vs-llama-greedy.py).

For each FOLDER/NAME.ids the model is made again by its set's make.py (tests/llm/SET), run by transformers in float64 over the
ids up to the first difference, and the most probable next id is compared. Prints a Markdown table: row, that id and who has
it, and the distance of zt's and llama.cpp's ids in the authors' logits, in their deviations.
Needs torch and transformers as tests/llm/archs/make.py.
"""
import contextlib
import glob
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ENDS = (2, 3)  # never generated, as vs-llama-greedy.py has it
HERE = os.path.dirname(os.path.abspath(__file__))


def last_logits(name, place, ids):
    """The set's own make.py, with other ids in its last step."""
    where = f"{HERE}/../tests/llm/{place}"
    sys.path[:0] = [where, f"{where}/../archs"]
    spec = importlib.util.spec_from_file_location("made", f"{where}/make.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    archs = getattr(made, "archs", made)
    usual, found = archs.forward, []

    def forward(model, embed, own):
        found.append(usual(model, embed, np.array(ids))[1][-1])
        return usual(model, embed, own)

    archs.forward = forward
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        made.main([folder, name])
    return found[-1]


def judge(path):
    with open(path) as f:
        case = json.load(f)
    name = os.path.basename(path).removesuffix(".ids")
    place = os.path.basename(os.path.dirname(case["directory"].rstrip("/")))
    row = last_logits(name, place, case["ids"])
    best = int(np.where(np.isin(np.arange(len(row)), ENDS), -np.inf, row).argmax())
    who = {case["zt"]: "zt", case["llama"]: "llama.cpp"}.get(best, "neither")
    print(f"| {name} | {best}: {who} | {(row[case['zt']] - row[case['llama']]) / row.std():.2g} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1].endswith(".ids"):
        sys.exit(judge(sys.argv[1]))
    print("| model | the authors' next id | zt's above llama.cpp's, deviations |\n|---|---|---|", flush=True)
    for case in sorted(glob.glob(f"{sys.argv[1]}/*.ids")):
        if subprocess.run([sys.executable, __file__, case], stderr=subprocess.DEVNULL).returncode:
            print(f"| {os.path.basename(case).removesuffix('.ids')} | its make.py fails here | |", flush=True)
