/* zt.h - what most programs need of libzt: a context, tensors, model files, language models, and
 * sessions that run programs. The rest comes by zt/NAME.h (the table below).
 *
 *     zt_ctx *ctx = zt_ctx_new();                               // errors, memory, log
 *     zt_engine *cpu = zt_engine_open(ctx, "cpu");              // where it runs
 *     zt_gguf *file = zt_model_open(ctx, "model.gguf");         // or a Hugging Face directory
 *     zt_vocab *vocab = file ? zt_vocab_open(file) : NULL;      // text <-> token ids
 *     zt_llm *llm = vocab ? zt_llm_open(file, &(zt_llm_opts){.engine = cpu}) : NULL;
 *     zt_ids prompt = {0};
 *     int32_t next = -1;
 *     if (llm && !zt_vocab_encode(vocab, "The sky is", 10, ZT_TOK_BOS_RULE, &prompt) &&
 *         !zt_llm_next(llm, prompt.id, prompt.count, &next))        // feed it, get the next token
 *         printf("next token: %d\n", next);
 *     else
 *         fprintf(stderr, "%s\n", zt_ctx_error(ctx));           // what failed first, one sentence
 *     zt_ids_fini(ctx, &prompt), zt_llm_close(llm), zt_vocab_free(vocab);
 *     zt_gguf_close(file), zt_engine_close(cpu), zt_ctx_free(ctx);
 *
 * Objects, each with the header that is its manual:
 *
 *   zt_ctx         base/base.h       one per program: the first error, the allocator, the log
 *   zt_tensor      tensor/tensor.h   a type (dtype and shape) and its bytes; counted references
 *   zt_checkpoint  io/checkpoint.h   a model file of any container, read tensor by tensor
 *   zt_writer      io/checkpoint.h   a model file being written: whole after commit, or absent
 *   zt_gguf        io/gguf.h         a language model's file: metadata and tensors
 *   zt_vocab       llm/llm.h         a tokenizer
 *   zt_llm         llm/llm.h         a language model on an engine, with its KV cache
 *   zt_engine      engine/engine.h   "cpu", "ref", "vulkan", "cuda", "hip"
 *   zt_session     run/run.h         any program on an engine: weights loaded once, steps replayed
 *   zt_run         run/run.h         ops run one at a time, and their gradients
 *
 * Errors. A function that can fail returns a zt_status, or a pointer that is NULL on failure; the
 * sentence for a human is kept in the context (zt_ctx_error), the first one until zt_ctx_clear.
 *
 * Ownership. What comes from new, open, make or dup is released by the free, close or unref of its
 * type, which takes NULL. Every other pointer that is passed is borrowed for the call, unless the
 * function says longer; every pointer that a getter returns lives as long as what it was got from.
 * Release in the opposite order of opening: the context last.
 *
 * Wrong use. NULL where an object or an array is needed, a count below 0, a number that is not one of
 * an enum: an error (ZT_EUSAGE, or the NULL, 0, false or -1 that the function has for "none"), or
 * nothing happens. Undefined is what C cannot see: an object that was released, an array shorter
 * than its count says, one object used by two threads at once where its header does not allow it.
 *
 *   zt/files.h     what is at a path: pointers instead of models, attributes, names close to a word
 *   zt/io.h        every container by itself: GGUF, safetensors, npy, npz, PyTorch, network JSON
 *   zt/quantize.h  rows to quantization types, mixes of types, importance matrices, size budgets
 *   zt/ops.h       what every op means, and ops of your own
 *   zt/program.h   programs: built, printed, parsed, transformed, interpreted, compared
 *   zt/engine.h    engines, which of them to take, the machine's roofline
 *   zt/run.h       sessions, eager ops, recording, gradients, the paged KV cache
 *   zt/train.h     optimizers, training steps, data sets, the loop over epochs
 *   zt/nn.h        volumetric networks: grids of layers, from JSON
 *   zt/llm.h       language models: templates, batches, speculation, training
 *   zt/sign.h      signatures of models
 *   zt/dna.h       models inspected and compared, merged, adapters
 *   zt/all.h       all of these
 */
#ifndef ZT_H
#define ZT_H

#include "lib/base/base.h"
#include "lib/tensor/tensor.h"
#include "lib/io/checkpoint.h"
#include "lib/io/gguf.h"
#include "lib/engine/engine.h"
#include "lib/run/run.h"
#include "lib/llm/llm.h"

#endif
