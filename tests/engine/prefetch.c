/* prefetch.c - what a thread that waits sends for before an attention: the keys and values that its
 * rows see, all of them and no others, and nothing outside of the caches, whatever inputs hold.
 */
#include "lib/engine/cpu/cpu.h"
#include "tests/common/tap.h"

#include <string.h>

enum { CTX = 640, G = 3, SHARE = 2, D = 16, W = G * D, SEQS = 2, MOST = 9 };

typedef struct scene {
    zt_attention_attrs a;
    int n, blocks; /* rows; blocks of the table, 0: there is none */
    int32_t pos[MOST], seq[MOST], table[SEQS * CTX];
} scene;

static uint16_t keys[CTX][W], values[CTX][W], x[MOST][SHARE * W], y[MOST][SHARE * W];
static bool sent[2][CTX][G], seen[2][CTX][G];

static zt_cpu_arg arg(zt_dtype t, int rank, int64_t a, int64_t b, const void *data)
{
    return (zt_cpu_arg){.type = zt_type_make(t, rank, (int64_t[]){a, b}), .data = (void *)(uintptr_t)data};
}

static zt_cpu_call call_of(const scene *s)
{
    zt_cpu_call c = {.kernel = zt_cpu_attention_scalar, .attrs = &s->a, .n_phases = 1};
    c.in[0] = arg(ZT_F32, 2, s->n, SHARE * W, x);
    c.in[1] = arg(ZT_F16, 2, CTX, W, keys);
    c.in[2] = arg(ZT_F16, 2, CTX, W, values);
    c.in[3] = arg(ZT_I32, 1, s->n, 0, s->pos);
    if (s->blocks) {
        c.in[4] = arg(ZT_I32, 1, s->n, 0, s->seq);
        c.in[5] = arg(ZT_I32, 2, SEQS, s->blocks, s->table);
    }
    c.out[0] = arg(ZT_F32, 2, s->n, SHARE * W, y);
    c.kernel->setup(&c);
    return c;
}

/* The columns of one head, or of some that follow each other, in one row of a cache; false: the bytes are not that. */
static bool mark(const uint8_t *at, size_t bytes)
{
    bool is_value = at >= (const uint8_t *)values && at < (const uint8_t *)values + sizeof values;
    size_t off = (size_t)(at - (const uint8_t *)(is_value ? values : keys)), row = sizeof keys[0];
    if (off >= sizeof keys || off % (2 * D) || !bytes || bytes % (2 * D) || off % row + bytes > row) return false;
    for (size_t head = off % row; head < off % row + bytes; head += 2 * D) sent[is_value][off / row][head / (2 * D)] = true;
    return true;
}

/* All that parts of `step` items send for, into `sent`; false: a piece that is none. */
static bool send(const scene *s, int64_t step)
{
    zt_cpu_call call = call_of(s);
    memset(sent, 0, sizeof sent);
    for (int64_t i = 0; i < call.items[0]; i += step) {
        int64_t turn = 0, end = i + step < call.items[0] ? i + step : call.items[0];
        for (zt_cpu_prefetch a; call.kernel->prefetch_states(&call, i, end, &turn, &a);)
            for (int64_t k = 0; k <= a.more; k++)
                if (!mark(a.at + (size_t)k * a.step, a.bytes)) return false;
    }
    return true;
}

static int64_t slot(const scene *s, int row, int64_t p)
{
    if (!s->blocks) return p;
    int64_t each = CTX / s->blocks;
    return s->table[s->seq[row] * s->blocks + p / each] * each + p % each;
}

static void check_scene(const scene *s)
{
    memset(seen, 0, sizeof seen);
    for (int r = 0; r < s->n; r++)
        for (int64_t p = 0; p <= s->pos[r]; p++)
            for (int g = 0; g < G && (s->a.window <= 0 || p > s->pos[r] - s->a.window); g++)
                seen[0][slot(s, r, p)][g] = seen[1][slot(s, r, p)][g] = true;
}

static void test_all(int count, int blocks, int64_t window)
{
    scene s = {.a = {.head = D, .window = window}, .n = count, .blocks = blocks};
    for (int r = 0; r < count; r++) {
        s.pos[r] = (500 + 41 * r) % CTX;
        s.seq[r] = blocks && r % 3 == 2;
    }
    for (int i = 0; i < SEQS * blocks; i++) /* 7 is prime to the blocks: a permutation each */
        s.table[i] = (i % blocks * 7 + i / blocks * 3) % blocks;
    check_scene(&s);
    for (int64_t step = 1; step < 20; step += 6)
        ok(send(&s, step) && !memcmp(sent, seen, sizeof sent),
           "%d rows, %d blocks, window %lld, %lld items a part: what is seen is sent for", count, blocks, (long long)window,
           (long long)step);
}

static void test_hostile(void)
{
    scene s = {.a = {.head = D}, .n = 4, .blocks = 20, .pos = {-1, CTX, INT32_MAX, 3}, .seq = {0, 1, 0, SEQS}};
    bool none[2][CTX][G] = {{{false}}};
    ok(send(&s, 1) && !memcmp(sent, none, sizeof sent), "rows out of range send for nothing");
    s.pos[0] = s.pos[1] = s.pos[2] = s.pos[3] = 39;
    s.seq[3] = -1;
    s.table[0] = 20, s.table[1] = -1;
    s.table[20] = 4, s.table[21] = INT32_MIN;
    memset(seen, 0, sizeof seen);
    for (int p = 0; p < 32; p++) /* the first block of sequence 1 */
        for (int g = 0; g < G; g++) seen[0][128 + p][g] = seen[1][128 + p][g] = true;
    ok(send(&s, 2) && !memcmp(sent, seen, sizeof sent), "nothing from a block out of range on");
}

int main(void)
{
    test_all(1, 0, 0);
    test_all(1, 20, 0);
    test_all(3, 20, 0);
    test_all(8, 20, 100);
    test_all(5, 2, 300);
    test_hostile();
    scene many = {.a = {.head = D}, .n = 9, .pos = {5, 5, 5, 5, 5, 5, 5, 5, 5}};
    zt_cpu_call call = call_of(&many);
    int64_t turn = 0;
    ok(!call.kernel->prefetch_states(&call, 0, call.items[0], &turn, &(zt_cpu_prefetch){0}), "9 rows: nothing");
    return tap_done();
}
