/* vocab_merge.c - merges neighbouring symbols, best pair first, leftmost among equals.
 *
 * Symbols sit in an array and are linked; pairs wait in a heap. A merge grows its left symbol
 * and unlinks the right one, so that a pair in the heap is out of date exactly when the lengths of
 * its two symbols no longer add up: nothing is ever removed from the middle of the heap. Each merge
 * adds at most two pairs, hence O(n log n).
 */
#include "lib/llm/vocab/vocab.h"

#include <assert.h>

void zt_merger_init(zt_merger *merger, zt_ctx *ctx)
{
    *merger = (zt_merger){.ctx = ctx};
    zt_str_init(&merger->printed, ctx);
}

void zt_merger_fini(zt_merger *merger)
{
    zt_str_fini(&merger->printed);
    zt_free(merger->ctx, merger->symbols);
    zt_free(merger->ctx, merger->heap);
    merger->symbols = NULL;
    merger->heap = NULL;
    merger->count = merger->capacity = merger->heap_count = merger->heap_capacity = 0;
}

/* Room for count items of `size` bytes; grows by half at least. */
static void *reserve_items(zt_ctx *ctx, void *items, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity) return items;
    size_t wanted = *capacity + *capacity / 2 < count ? count : *capacity + *capacity / 2, bytes;
    if (wanted < 64) wanted = 64;
    if (!zt_mul_size(wanted, size, &bytes)) {
        zt_fail(ctx, ZT_ENOMEM, "text too long: %zu symbols of %zu bytes", wanted, size);
        return NULL;
    }
    void *grown = zt_realloc(ctx, items, bytes);
    if (grown) *capacity = wanted;
    return grown;
}

zt_status zt_merger_reserve(zt_merger *merger, size_t count)
{
    zt_sym *symbols = reserve_items(merger->ctx, merger->symbols, &merger->capacity, count, sizeof *symbols);
    if (!symbols) return ZT_ENOMEM;
    merger->symbols = symbols;
    /* Merging count symbols puts count - 1 pairs at first and adds one net at each of count - 1 merges. */
    zt_pair *heap = reserve_items(merger->ctx, merger->heap, &merger->heap_capacity, 2 * count, sizeof *heap);
    if (!heap) return ZT_ENOMEM;
    merger->heap = heap;
    merger->count = count;
    return ZT_OK;
}

/* ---- the heap: smallest key on top, four children each --------------------------------------- */

/* Four pairs are one line of the cache, and half the levels of two children each. */
static void sift_down(zt_pair *heap, size_t count, size_t place)
{
    zt_pair moved = heap[place];
    for (size_t child; (child = 4 * place + 1) < count; place = child) {
        size_t end = child + 4 < count ? child + 4 : count;
        for (size_t k = child + 1; k < end; k++) child = heap[k].key < heap[child].key ? k : child;
        if (heap[child].key >= moved.key) break;
        heap[place] = heap[child];
    }
    heap[place] = moved;
}

static void push_pair(zt_merger *merger, zt_pair pair)
{
    assert(merger->heap_count < merger->heap_capacity);
    size_t place = merger->heap_count++;
    for (; place && pair.key < merger->heap[(place - 1) / 4].key; place = (place - 1) / 4)
        merger->heap[place] = merger->heap[(place - 1) / 4];
    merger->heap[place] = pair;
}

static zt_pair pop_pair(zt_merger *merger)
{
    zt_pair top = merger->heap[0];
    merger->heap[0] = merger->heap[--merger->heap_count];
    if (merger->heap_count) sift_down(merger->heap, merger->heap_count, 0);
    return top;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* The pair that starts at symbol left, if it may merge. */
static bool pair_at(const zt_merger *merger, const void *arg, const char *text, zt_pair_fn *find_pair, int32_t left,
                    zt_pair *pair)
{
    int32_t right = left < 0 ? -1 : merger->symbols[left].next;
    uint32_t rank;
    if (right < 0 || !find_pair(arg, text, &merger->symbols[left], &merger->symbols[right], &rank, &pair->id)) return false;
    pair->key = (uint64_t)rank << 32 | (uint32_t)left;
    pair->length = merger->symbols[left].length + merger->symbols[right].length;
    return true;
}

static void link_symbols(zt_merger *merger)
{
    for (size_t index = 0; index < merger->count; index++) {
        merger->symbols[index].prev = (int32_t)index - 1;
        merger->symbols[index].next = index + 1 < merger->count ? (int32_t)index + 1 : -1;
    }
}

/* Appends the next symbol to symbol `index`. The other one keeps length 0, which matches no pair in the heap. */
static void merge_at(zt_merger *merger, int32_t index, int32_t id)
{
    zt_sym *left = &merger->symbols[index], *right = &merger->symbols[left->next];
    left->length += right->length;
    left->id = id;
    left->next = right->next;
    if (right->next >= 0) merger->symbols[right->next].prev = index;
    right->length = 0;
}

void zt_merger_run(zt_merger *merger, const void *arg, const char *text, zt_pair_fn *find_pair)
{
    zt_pair pair;
    link_symbols(merger);
    merger->heap_count = 0;
    for (size_t i = 0; i < merger->count; i++)
        if (pair_at(merger, arg, text, find_pair, (int32_t)i, &pair)) merger->heap[merger->heap_count++] = pair;
    for (size_t i = (merger->heap_count + 2) / 4; i-- > 0;) sift_down(merger->heap, merger->heap_count, i);
    while (merger->heap_count) {
        pair = pop_pair(merger);
        int32_t i = (int32_t)(uint32_t)pair.key;
        const zt_sym *left = &merger->symbols[i];
        if (!left->length || left->next < 0 || left->length + merger->symbols[left->next].length != pair.length) continue;
        merge_at(merger, i, pair.id);
        zt_pair pair_after;
        if (pair_at(merger, arg, text, find_pair, merger->symbols[i].prev, &pair_after)) push_pair(merger, pair_after);
        if (pair_at(merger, arg, text, find_pair, i, &pair_after)) push_pair(merger, pair_after);
    }
}
