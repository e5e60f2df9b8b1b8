/* pair.c - --threads, --engine and --isa where each may be two, "A,B", to be compared. */
#include "tools/common/internal.h"

#include <string.h>

/* The two halves of a text; without a comma both are all of it. */
typedef struct value_pair {
    char half[2][64];
    bool two;
} value_pair;

static zt_status split_halves(zt_cli_state *state, const char *option, const char *text, value_pair *halves)
{
    char shown[96];
    const char *comma = strchr(text, ',');
    size_t length = comma ? (size_t)(comma - text) : strlen(text);
    const char *second = comma ? comma + 1 : text;
    halves->two = comma != NULL;
    if (length > 0 && length < sizeof halves->half[0] && *second && strlen(second) < sizeof halves->half[0] &&
        !strchr(second, ',')) {
        snprintf(halves->half[0], sizeof halves->half[0], "%.*s", (int)length, text);
        snprintf(halves->half[1], sizeof halves->half[1], "%s", second);
        return ZT_OK;
    }
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '--%s': '%s' is not one value or two values A,B", option,
                   zt_escape(shown, sizeof shown, text, strlen(text)));
}

static zt_status fail_value(zt_cli_state *state, const char *option, const char *text, const char *wanted)
{
    char shown[96];
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '--%s': '%s' is not %s", option,
                   zt_escape(shown, sizeof shown, text, strlen(text)), wanted);
}

static zt_status settle_threads(zt_cli_state *state)
{
    value_pair halves;
    int64_t threads[2];
    if (!state->threads_text) return ZT_OK;
    zt_status status = split_halves(state, "threads", state->threads_text, &halves);
    for (int i = 0; i < 2 && !status; i++)
        if (!zt_parse_i64(halves.half[i], &threads[i]) || threads[i] < 1 || threads[i] > 256)
            status = fail_value(state, "threads", halves.half[i], "an integer from 1 to 256");
    if (status) return status;
    state->cli.threads = threads[0];
    state->second.threads = threads[1];
    state->cli.pair |= halves.two;
    return ZT_OK;
}

static zt_status settle_isa(zt_cli_state *state)
{
    value_pair halves;
    zt_isa isa[2], best = zt_isa_best();
    state->second.isa = state->cli.isa;
    if (!state->isa_text) return ZT_OK;
    zt_status status = split_halves(state, "isa", state->isa_text, &halves);
    for (int i = 0; i < 2 && !status; i++) {
        if (!zt_isa_parse(halves.half[i], &isa[i]))
            status = fail_value(state, "isa", halves.half[i], "one of scalar|avx2|avx512|neon|dotprod");
        else if (!zt_isa_has(isa[i]))
            status = zt_fail(state->cli.ctx, ZT_ENOTSUP, "--isa %s: this processor supports at most %s", zt_isa_name(isa[i]),
                             zt_isa_name(best));
    }
    if (status) return status;
    state->cli.isa = isa[0];
    state->second.isa = isa[1];
    state->cli.pair |= halves.two;
    return ZT_OK;
}

static zt_status settle_engine(zt_cli_state *state)
{
    value_pair halves;
    zt_status status = split_halves(state, "engine", state->cli.engine, &halves);
    if (status) return status;
    memcpy(state->engine, halves.half, sizeof state->engine);
    state->cli.engine = state->engine[0];
    state->second.engine = state->engine[1];
    state->cli.pair |= halves.two;
    return ZT_OK;
}

zt_status zt_pair_settle(zt_cli_state *state)
{
    zt_status status = settle_threads(state);
    if (!status) status = settle_isa(state);
    return status ? status : settle_engine(state);
}

zt_cli_second zt_cli_pair(const zt_cli *cli) { return ((const zt_cli_state *)cli)->second; }
