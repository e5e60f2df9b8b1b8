#!/bin/bash
# Makes losses.json: the loss of each step of PEFT with PyTorch (python with torch, transformers and peft) on a made model.
#     PATH=build/bin:$PATH make.sh PYTHON
set -euo pipefail
here=$(realpath "$(dirname "$0")")
read -r size vocab window batch rate rank alpha epochs <"$here/settings"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
zt-train -q --text "$here/text.txt" --size "$size" --vocab "$vocab" -c "$window" --epochs 0 -o "$work/base.gguf"
zt-train -q --text "$here/text.txt" -m "$work/base.gguf" -c "$window" --batch "$batch" --lora "$rank,$alpha" --epochs 0 -o "$work/start/"
zt-convert -q "$work/base.gguf" "$work/base/"
"$1" "$here/../../../bench/lora-peft.py" "$work/base" "$work/start" "$here/text.txt" "$window" "$batch" "$epochs" 0 "$rate" 1 |
    perl -MJSON::PP -ne 'printf "{\"loss\":%.9g}\n", decode_json($_)->{loss}' >"$here/losses.json"
