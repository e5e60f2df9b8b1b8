/* zt/llm.h - language models.
 *
 *   llm/llm.h          files, vocabularies, templates, sampling, models, scores
 *   llm/jinja/jinja.h      chat templates in Jinja
 *   llm/grammar/grammar.h  structured output: GBNF, JSON Schema, regular expressions
 *   llm/batch.h            many texts at once: continuous batching over a paged cache
 *   llm/kv_store.h         blocks of the cache in a directory that processes share
 *   llm/model_digest.h     which model it is, whatever file holds it
 *   llm/speculate.h        drafts of what follows, taken from the text itself
 *   llm/draft_model.h      drafts of what follows, by a smaller model
 *   llm/learn.h            new models, and the programs by which models are trained
 */
#ifndef ZT_PUBLIC_LLM_H
#define ZT_PUBLIC_LLM_H

#include "lib/llm/llm.h"
#include "lib/llm/jinja/jinja.h"
#include "lib/llm/grammar/grammar.h"
#include "lib/llm/reply/reply.h"
#include "lib/llm/batch.h"
#include "lib/llm/kv_store.h"
#include "lib/llm/model_digest.h"
#include "lib/llm/speculate.h"
#include "lib/llm/draft_model.h"
#include "lib/llm/learn.h"

#endif
