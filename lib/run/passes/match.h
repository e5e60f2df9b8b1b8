/* match.h - private to lib/run/passes: patterns looked for in a program, and put in place. */
#ifndef ZT_MATCH_H
#define ZT_MATCH_H

#include "lib/run/passes/pattern.h"

typedef struct zt_matcher zt_matcher;

zt_status zt_matcher_new(zt_matcher **m, zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts);
void zt_matcher_free(zt_matcher *matcher);
/* Every place where the pattern is, fused; a step is part of one. */
zt_status zt_matcher_find(zt_matcher *matcher, const zt_pattern *pattern);
/* The program with what was found fused; *out stays as it is where there was nothing. */
zt_status zt_matcher_replace(zt_matcher *matcher, zt_prog **rewritten);

#endif
