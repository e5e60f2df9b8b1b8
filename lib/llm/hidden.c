/* hidden.c - hidden states of the tokens that were fed, for a multi-token-prediction head. */
#include "lib/llm/hidden.h"

#include <string.h>

struct zt_hidden {
    zt_ctx *ctx;
    int64_t width;
    int64_t first, end; /* positions whose states are known: first <= position < end */
    int32_t *ids;       /* [capacity], by position */
    float *rows;        /* [capacity, width] */
};

zt_hidden *zt_hidden_open(zt_ctx *ctx, int64_t width, int64_t capacity)
{
    zt_hidden *hidden = zt_calloc(ctx, 1, sizeof *hidden);
    if (!hidden) return NULL;
    *hidden = (zt_hidden){.ctx = ctx, .width = width};
    hidden->ids = zt_alloc_array(ctx, (size_t)capacity, sizeof *hidden->ids);
    hidden->rows = zt_alloc_array(ctx, (size_t)capacity, (size_t)width * sizeof *hidden->rows);
    if (hidden->ids && hidden->rows) return hidden;
    zt_hidden_close(hidden);
    return NULL;
}

void zt_hidden_close(zt_hidden *hidden)
{
    if (!hidden) return;
    zt_free(hidden->ctx, hidden->ids);
    zt_free(hidden->ctx, hidden->rows);
    zt_free(hidden->ctx, hidden);
}

float *zt_hidden_begin(zt_hidden *hidden, int64_t position, const int32_t *ids, int64_t count)
{
    if (position < hidden->first || position > hidden->end) hidden->first = position;
    hidden->end = position;
    memcpy(hidden->ids + position, ids, (size_t)count * sizeof *ids);
    return hidden->rows + position * hidden->width;
}

void zt_hidden_end(zt_hidden *hidden, int64_t count) { hidden->end += count; }

size_t zt_hidden_from(const zt_hidden *hidden, const int32_t *ids, size_t count)
{
    size_t from = count ? count - 1 : 0;
    if ((size_t)hidden->end < from) return count;
    while (from > (size_t)hidden->first && hidden->ids[from - 1] == ids[from - 1]) from--;
    return from + 1 < count ? from : count;
}

const float *zt_hidden_at(const zt_hidden *hidden, size_t position) { return hidden->rows + (int64_t)position * hidden->width; }

size_t zt_hidden_bytes(int64_t width, int64_t capacity)
{
    return (size_t)capacity * ((size_t)width * sizeof(float) + sizeof(int32_t));
}
