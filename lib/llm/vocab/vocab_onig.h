/* vocab_onig.h - private: translation of Oniguruma regular expressions to PCRE2. */
#ifndef ZT_LLM_VOCAB_ONIG_H
#define ZT_LLM_VOCAB_ONIG_H

#include "lib/llm/vocab/vocab_json.h"

/* Appends a PCRE2 expression (UTF, UCP, MULTILINE, newline LF) with the same matches to `out`.
 * ZT_ENOTSUP: a construct without a counterpart. ZT_EDATA: an invalid expression. */
zt_status zt_onig_to_pcre2(zt_ctx *ctx, const char *file, const char *where, zt_bytes regex, zt_str *out);

#endif
