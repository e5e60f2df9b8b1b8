/* vocab_onig.h - private: regular expressions of Oniguruma translated for PCRE2. */
#ifndef ZT_LLM_VOCAB_ONIG_H
#define ZT_LLM_VOCAB_ONIG_H

#include "lib/llm/vocab/vocab_json.h"

/* Appends to out an expression for PCRE2 (UTF, UCP, MULTILINE, newline LF) with the same matches.
 * What has no counterpart is ZT_ENOTSUP, what is no expression ZT_EDATA. */
zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex, zt_str *out);

#endif
