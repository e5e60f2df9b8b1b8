"""lora-peft.py - PEFT and PyTorch on the CPU, from the start that zt-train --lora --epochs 0 wrote, over the windows that it draws.

    lora-peft.py BASE START TEXT WINDOW BATCH STEPS SEED LR THREADS

BASE: a directory of transformers; START: an adapter. A line of JSON for each step: loss, seconds, processor time.
"""
import json
import sys
import time

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def uniform(seed, sequence, position):
    """Philox 4x32-10 (J. Salmon et al., 2011) as a number in [0, 1), as zt draws it."""
    mask = 0xffffffff
    c, k = [position & mask, position >> 32, sequence & mask, sequence >> 32], [seed & mask, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return ((c[1] << 32 | c[0]) >> 11) * 2.0**-53


def main():
    base, start, text = sys.argv[1:4]
    window, batch, steps, seed = map(int, sys.argv[4:8])
    rate, threads = float(sys.argv[8]), int(sys.argv[9])
    torch.set_num_threads(threads)
    ids = AutoTokenizer.from_pretrained(base)(open(text).read(), add_special_tokens=False)["input_ids"]
    room, per_epoch = len(ids) - window, max(len(ids) // window // batch, 1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, start, is_trainable=True)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=0.01)
    for step in range(steps):
        epoch, number = divmod(step, per_epoch)
        at = [int(room * uniform(seed, epoch, number * batch + row)) for row in range(batch)]
        x, y = (torch.tensor([ids[i + n:i + n + window] for i in at]) for n in (0, 1))
        began, cpu = time.time(), time.process_time()
        optimizer.zero_grad()
        logits = model(input_ids=x).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
        loss.backward()
        optimizer.step()
        print(json.dumps({"step": step + 1, "per_epoch": per_epoch, "loss": loss.item(), "seconds": time.time() - began,
                          "cpu": time.process_time() - cpu}), flush=True)


main()
