/* pair.c - --threads, --engine and --isa where each may be two, "A,B", to be compared. */
#include "tools/common/internal.h"

#include <string.h>

/* The two halves of a text; without a comma both are all of it. */
typedef struct halves {
    char at[2][64];
    bool two;
} halves;

static zt_status cut(zt_cli_state *st, const char *option, const char *text, halves *h)
{
    char shown[96];
    const char *comma = strchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) : strlen(text);
    const char *second = comma ? comma + 1 : text;
    h->two = comma != NULL;
    if (n > 0 && n < sizeof h->at[0] && *second && strlen(second) < sizeof h->at[0] &&
        !strchr(second, ',')) {
        snprintf(h->at[0], sizeof h->at[0], "%.*s", (int)n, text);
        snprintf(h->at[1], sizeof h->at[1], "%s", second);
        return ZT_OK;
    }
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '--%s': '%s' is not one or two, A,B", option,
                   zt_escape(shown, sizeof shown, text, strlen(text)));
}

static zt_status bad(zt_cli_state *st, const char *option, const char *text, const char *wanted)
{
    char shown[96];
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '--%s': '%s' is not %s", option,
                   zt_escape(shown, sizeof shown, text, strlen(text)), wanted);
}

static zt_status settle_threads(zt_cli_state *st)
{
    halves h;
    int64_t n[2];
    if (!st->threads_text) return ZT_OK;
    zt_status s = cut(st, "threads", st->threads_text, &h);
    for (int i = 0; i < 2 && !s; i++)
        if (!zt_parse_i64(h.at[i], &n[i]) || n[i] < 1 || n[i] > 256)
            s = bad(st, "threads", h.at[i], "an integer from 1 to 256");
    if (s) return s;
    st->pub.threads = n[0];
    st->second.threads = n[1];
    st->pub.pair |= h.two;
    return ZT_OK;
}

static zt_status settle_isa(zt_cli_state *st)
{
    halves h;
    zt_isa isa[2], best = zt_isa_best();
    st->second.isa = st->pub.isa;
    if (!st->isa_text) return ZT_OK;
    zt_status s = cut(st, "isa", st->isa_text, &h);
    for (int i = 0; i < 2 && !s; i++) {
        if (!zt_isa_parse(h.at[i], &isa[i]))
            s = bad(st, "isa", h.at[i], "one of scalar|avx2|avx512");
        else if (isa[i] > best)
            s = zt_fail(st->pub.ctx, ZT_ENOTSUP, "--isa %s: this processor has at most %s",
                        zt_isa_name(isa[i]), zt_isa_name(best));
    }
    if (s) return s;
    st->pub.isa = isa[0];
    st->second.isa = isa[1];
    st->pub.pair |= h.two;
    return ZT_OK;
}

static zt_status settle_engine(zt_cli_state *st)
{
    halves h;
    zt_status s = cut(st, "engine", st->pub.engine, &h);
    if (s) return s;
    memcpy(st->engine, h.at, sizeof st->engine);
    st->pub.engine = st->engine[0];
    st->second.engine = st->engine[1];
    st->pub.pair |= h.two;
    return ZT_OK;
}

zt_status zt_pair_settle(zt_cli_state *st)
{
    zt_status s = settle_threads(st);
    if (!s) s = settle_isa(st);
    return s ? s : settle_engine(st);
}

zt_cli_second zt_cli_pair(const zt_cli *cli) { return ((const zt_cli_state *)cli)->second; }
