/* fuse.c - the passes fuse and share: the rows' expansions read backwards.
 *
 * fuse takes patterns that end in one op (a norm after a sum, what follows a linear), share those
 * whose ends only have inputs in common (the linears of one x, the rows that go into a cache). No
 * row is named: one takes part by having `expand` and ZT_OPF_SAME.
 */
#include "lib/run/passes/match.h"

static bool one_sink(const zt_pattern *p) { return !(p->sinks & (p->sinks - 1)); }

static zt_status match_patterns(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, bool single,
                                zt_prog **rewritten)
{
    zt_matcher *matcher = NULL;
    zt_pattern *list = NULL;
    int pattern_count = 0;
    zt_arena *memory = zt_arena_new(ctx, 1 << 16);
    zt_status status = memory ? zt_patterns_make(memory, &list, &pattern_count) : ZT_ENOMEM;
    if (!status && pattern_count) status = zt_matcher_new(&matcher, ctx, program, options);
    for (int i = 0; i < pattern_count && !status; i++)
        if (one_sink(&list[i]) == single) status = zt_matcher_find(matcher, &list[i]);
    if (!status && matcher) status = zt_matcher_replace(matcher, rewritten);
    zt_matcher_free(matcher);
    zt_arena_free(memory);
    return status;
}

static zt_status run_fuse(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    return match_patterns(ctx, program, options, true, rewritten);
}

static zt_status run_share(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    return match_patterns(ctx, program, options, false, rewritten);
}

const zt_pass zt_pass_fuse = {
    .name = "fuse",
    .help = "fusion: replace groups of ops by fused ops",
    .run = run_fuse,
};

const zt_pass zt_pass_share = {
    .name = "share",
    .help = "horizontal fusion: merge ops that share inputs",
    .run = run_share,
};
