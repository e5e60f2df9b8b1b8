#!/usr/bin/env python3
"""differential.py - does zt accept the files that a format's reference library accepts?

    tests/fuzz/differential.py [-n COUNT] [-s SEED] [--save DIR] FORMAT FILE...

FORMAT is gguf (PyPI gguf), safetensors (PyPI safetensors), jinja (PyPI jinja2, as transformers uses it) or tokjson (PyPI tokenizers).
The driver of the fuzz target of that name (ZT_TESTS/fuzz_FORMAT -o) makes COUNT mutants of the files from SEED, structure-aware, with one
or two changes each, in one process; each is given to the reference. The four cells are counted, and disagreements are put into classes by the message of the side
that refuses, with numbers and names left out. tests/fuzz/differences/FORMAT.tsv has the classes that are explained: a line each,

    zt-refuses|zt-accepts TAB regular expression for the class TAB why

Prints Markdown. --save keeps the smallest file of each class. Exit status 1: a class is not explained; 69: no reference library.
"""
import argparse
import collections
import json
import os
import re
import signal
import struct
import subprocess
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
# Seconds of the processor: a reference that takes longer does not end. GGUFReader walks arrays of 2^60 elements behind the end.
SECONDS = {"gguf": 0.05, "safetensors": 1, "tokjson": 1, "jinja": 5}


class NoEnd(Exception):
    """The reference does not come to an end."""


def gguf_reference():
    import io
    import numpy
    from gguf import gguf_reader

    def read(data):
        numpy.memmap = lambda path, mode: numpy.frombuffer(data, dtype=numpy.uint8)  # in place of a file of the same bytes
        gguf_reader.GGUFReader(io.BytesIO(data))

    return read


def safetensors_reference():
    from safetensors import deserialize
    return deserialize


def tokjson_reference():
    from tokenizers import Tokenizer
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its panics print a trace each
    return lambda data: Tokenizer.from_str(data.split(b"\0")[0].decode("utf-8"))


def jinja_reference():
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """The tag by which transformers finds the assistant's tokens."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=[Generation, jinja2.ext.loopcontrols])
    return lambda data: environment.from_string(data.split(b"\0")[0].decode("utf-8"))


REFERENCES = {"gguf": gguf_reference, "safetensors": safetensors_reference, "tokjson": tokjson_reference, "jinja": jinja_reference}


def on_alarm(_signal, _frame):
    raise NoEnd("does not end")


def ask(reference, data, seconds):
    """'' or why the reference refuses."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        reference(data)
        return ""
    except NoEnd as error:
        return str(error)
    except BaseException as error:  # pyo3's panics are BaseExceptions
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def generalize(message):
    """The class of a message: without names and numbers."""
    message = re.sub(r"^(fuzz|t)(:\d+)*: ", "", message)
    message = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'_'", message)
    message = re.sub(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[+-]?\d+)?", "N", message)
    return message[:160]


def records(stream):
    while head := stream.read(4):
        data = stream.read(struct.unpack("<I", head)[0])
        message = stream.read(struct.unpack("<I", stream.read(4))[0])
        yield data, message.decode("utf-8", "replace")


def trait(name, data):
    """What else a class depends on: a reader that knows no order of members keeps the last of two tensors of one name."""
    if name != "safetensors" or len(data) < 8:
        return ""
    twice = []

    def note(pairs):
        keys = [key for key, _ in pairs]
        twice.extend(key for key in keys if keys.count(key) > 1)
        return dict(pairs)

    try:
        json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]], object_pairs_hook=note)
    except ValueError:
        return ""
    return " (a name comes twice)" if twice else ""


def explanations(name):
    path = f"{HERE}/differences/{name}.tsv"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line.strip() and line[0] != "#"]


def explain(known, side, what):
    return next((row[2] for row in known if row[0] == side and re.search(row[1], what)), None)


def compare(arguments, reference):
    tests = os.environ.get("ZT_TESTS", f"{HERE}/../../build/tests")
    command = [f"{tests}/fuzz_{arguments.format}", "-n", str(arguments.n), "-s", str(arguments.s), "-c", "2", "-o", "/dev/stdout"]
    cells, classes, smallest = collections.Counter(), collections.Counter(), {}
    driver = subprocess.Popen(command + arguments.file, stdout=subprocess.PIPE)
    left = arguments.n + len(arguments.file)
    for data, refusal in records(driver.stdout):
        why = ask(reference, data, SECONDS[arguments.format])
        cells[not refusal, not why] += 1
        if bool(refusal) != bool(why):
            key = ("zt-refuses", generalize(refusal)) if refusal else ("zt-accepts", generalize(why))
            key = key[0], key[1] + trait(arguments.format, data)
            classes[key] += 1
            if len(data) < len(smallest.get(key, data + b"x")):
                smallest[key] = data
        left -= 1
        if left == 0:
            break  # the driver's last line is behind the records
    driver.stdout.read()
    if driver.wait() != 0:
        sys.exit(f"differential: {command[0]} ended with status {driver.returncode}")
    return cells, classes, smallest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("-s", type=int, default=1)
    parser.add_argument("--save")
    parser.add_argument("format", choices=REFERENCES)
    parser.add_argument("file", nargs="+")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        reference = REFERENCES[arguments.format]()
    except ImportError as error:
        print(f"differential: {error}", file=sys.stderr)
        sys.exit(69)
    signal.signal(signal.SIGVTALRM, on_alarm)
    cells, classes, smallest = compare(arguments, reference)
    known, unexplained = explanations(arguments.format), 0
    print(f"| {arguments.format} | the reference accepts | it refuses |\n|---|---|---|")
    print(f"| zt accepts | {cells[True, True]} | {cells[True, False]} |")
    print(f"| zt refuses | {cells[False, True]} | {cells[False, False]} |\n")
    print("| files | who refuses, and its message | why |\n|---|---|---|")
    for number, ((side, what), count) in enumerate(classes.most_common()):
        why = explain(known, side, what)
        unexplained += why is None
        print(f"| {count} | {'zt' if side == 'zt-refuses' else 'reference'}: {what.replace('|', '/')} | {why or '**not explained**'} |")
        if arguments.save:
            os.makedirs(arguments.save, exist_ok=True)
            with open(f"{arguments.save}/{arguments.format}-{number}", "wb") as out:
                out.write(smallest[side, what])
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
