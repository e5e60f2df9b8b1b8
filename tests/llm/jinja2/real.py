#!/usr/bin/env python3
"""real.py FOLDER OUT [HASHES] - real chat templates beside jinja2: each of FOLDER/*.jinja in twelve conversations.

FOLDER is models/templates of llama.cpp, as it is in llama-cpp-python 0.3.36 (PyPI):

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36 && tar -xf llama_cpp_python-0.3.36.tar.gz
    python3 tests/llm/jinja2/real.py llama_cpp_python-0.3.36/vendor/llama.cpp/models/templates /tmp/real.ndjson
    build/tests/jinja /tmp/real.ndjson

OUT gets all cases, in the form of make.py. Templates of models under Apache-2.0 or MIT (TEXT) are kept with their
cases in real.tar.xz. Of the others only SHA-256 is kept, in real.sha256: of the template, and of what jinja2 makes of it
("e": it refuses). The file is read, and a template or a result that differs is an error; with HASHES it is written.
"""
import hashlib, json, os, subprocess, sys, tempfile

TEXT = """Apertus-8B-Instruct Apriel-1.6-15b-Thinker-fixed Bielik-11B-v3.0-Instruct ByteDance-Seed-OSS GLM-4.6 GLM-4.7-Flash
GigaChat3-10B-A1.8B GigaChat3.1-10B-A1.8B HuggingFaceTB-SmolLM3-3B MiMo-VL MiniMax-M1 Mistral-Small-3.2-24B-Instruct-2506
Qwen-QwQ-32B Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Qwen3-Coder Qwen3.5-4B StepFun3.5-Flash
deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-R1-Distill-Qwen-32B deepseek-ai-DeepSeek-V3.1
deepseek-ai-DeepSeek-V3.2 google-gemma-4-31B-it google-gemma-4-31B-it-interleaved ibm-granite-granite-3.3-2B-Instruct
ibm-granite-granite-4.0 ibm-granite-granite-4.1 llama-cpp-deepseek-r1 llama-cpp-rwkv-world
meetkai-functionary-medium-v3.1 microsoft-Phi-3.5-mini-instruct mistralai-Ministral-3-14B-Reasoning-2512
mistralai-Mistral-Nemo-Instruct-2407 openai-gpt-oss-120b openbmb-MiniCPM5-1B unsloth-Apriel-1.5
unsloth-mistral-Devstral-Small-2507""".split()

here = os.path.dirname(os.path.abspath(__file__))
folder, out = sys.argv[1], sys.argv[2]
kept = os.path.join(here, "real.sha256")


def sha(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


env = dict(os.environ, TEMPLATES=folder, REAL="1")
subprocess.run([sys.executable, os.path.join(here, "make.py"), out], check=True, env=env)
texts, lines, results, first = [], [], {}, {}
for line in open(out, encoding="utf-8"):
    case = json.loads(line)
    if "group" not in case:
        texts.append(line)
        continue
    name, t = case["group"][5:], case["t"]
    if "number" in case:
        first[case["number"]] = t
    t = first[t] if isinstance(t, int) else t
    results.setdefault(name, [sha(t)]).append(sha(case["x"]) if "x" in case else case["e"])
    if name in TEXT:
        texts.append(line)
hashes = "".join(f"{name} {' '.join(r)}\n" for name, r in sorted(results.items()) if name not in TEXT)
if len(sys.argv) > 3:
    open(sys.argv[3], "w").write(hashes)
    with tempfile.TemporaryDirectory() as work:
        open(os.path.join(work, "real.ndjson"), "w", encoding="utf-8").writelines(texts)
        subprocess.run(["tar", "-C", work, "--sort=name", "--mtime=2026-01-01", "--owner=0", "--group=0", "-cJf", os.path.join(here, "real.tar.xz"), "real.ndjson"], check=True)
elif hashes != open(kept).read():
    sys.exit("the templates, or what jinja2 makes of them, are not those of real.sha256")
print(len(results), "templates,", sum(len(r) - 1 for r in results.values()), "cases;", sum(n in TEXT for n in results), "templates kept as text")
