/* quant_grid.c - quantizers of the types whose codes stand for vectors of a grid: iq2_xxs iq2_xs
 * iq2_s iq3_xxs iq3_s iq1_s iq1_m.
 *
 * A vector x of 4 or 8 numbers is taken as s g, s the scale of its group and g a vector of the
 * grid. What is left of it,
 *
 *     sum w (x - s g)^2 = sum w x^2 + s (s Q - 2 P),   P = sum w x g,   Q = sum w g^2,
 *
 * depends on s through a line, s Q - 2 P, of which each vector of the grid has one. Only the lines
 * of the lower envelope are ever the least: about ten of up to 2048. They are found once for each
 * vector (quant_envelope.h). After that any scale has its least error for a few multiplications, so
 * that the scales of groups and of blocks are tried by the dozen. Nothing is kept between calls: the
 * grid's values are unpacked on the stack for each.
 *
 * Of types that keep seven of eight signs, whose number is even, an odd number of negative numbers
 * makes one of them change its sign: of each vector of the grid the one whose w |x| g is least, by
 * twice which P is less. Of the choice of g and of that number this is the optimum.
 */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/quant_envelope.h"

#include "lib/tensor/decode.h"

#include <math.h>

/* ---- kinds of blocks ------------------------------------------------------------------------- */

/* FREE: each number has its sign. EVEN: seven of eight are kept. IN_GRID: of the grid's vectors. */
typedef enum sign_kind { FREE, EVEN, IN_GRID } sign_kind;

typedef struct grid_kind {
    const uint16_t *grid;
    int size, width;    /* vectors of the grid; numbers of one */
    const float *level; /* what a place in the grid stands for */
    float most;         /* the largest */
    sign_kind signs;
    bool each_shift; /* IN_GRID: eight numbers choose their shift, not a group */
    int group;       /* numbers that share a scale */
    int scales;      /* a scale is d step (2 i + 1), i below `scales` */
    float step;
} grid_kind;

static const float iq2_levels[] = {8, 25, 43}, iq3_levels[] = {4, 12, 20, 28, 36, 44, 52, 62},
                   odd_levels[] = {1, 3, 5, 7, 9, 11, 13, 15}, iq1_levels[] = {-1, 0, 1};

#define SHIFT 0.125f /* all numbers of an iq1 vector are moved by it, up or down */

enum { BLOCK = 256, EIGHTS = BLOCK / 8, LARGEST = 2048 };

/* The grid as floats, number j of all vectors together. */
static void unpack_grid(const grid_kind *kind, float *table)
{
    int bits = 16 / kind->width;
    for (int j = 0; j < kind->width; j++)
        for (int i = 0; i < kind->size; i++)
            table[j * kind->size + i] = kind->level[kind->grid[i] >> bits * j & ((1 << bits) - 1)];
}

/* ---- eight numbers --------------------------------------------------------------------------- */

/* Ways to write eight numbers, and the vectors of each. Two ways: which of two vectors of four has
 * the changed sign, or the shift upwards and downwards. */
typedef struct eight {
    envelope lines[2][2]; /* [way][part] */
    int ways;
} eight;

typedef struct grid_block {
    float x[BLOCK], w[BLOCK]; /* magnitudes, where signs are apart, and what they weigh */
    uint8_t negative[EIGHTS]; /* a bit each */
    eight eights[EIGHTS];
    float largest[16], wanted[16]; /* of each group: |x|; the scale of least error */
} grid_block;

/* What a choice of vectors leaves, less the sum of w x^2, and the sums that its best scale is of. */
typedef struct scale_sums {
    float error, p2, q; /* p2: twice P */
} scale_sums;

INLINE scale_sums way_sums(const grid_kind *kind, const eight *numbers, int way, float scale)
{
    scale_sums sums = {0, 0, 0};
    for (int part = 0; part < 8 / kind->width; part++) {
        const envelope *lines = &numbers->lines[way][part];
        int line = least_of_envelope(lines, scale);
        sums.error += scale * (scale * lines->q[line] - lines->p2[line]);
        sums.p2 += lines->p2[line];
        sums.q += lines->q[line];
    }
    return sums;
}

INLINE void add_sums(scale_sums *sums, const scale_sums *added)
{
    sums->error += added->error;
    sums->p2 += added->p2;
    sums->q += added->q;
}

/* Of the group's numbers by the better way; `way` [of its eights] (NULL: not asked) gets which. */
INLINE scale_sums group_sums(const grid_kind *kind, const eight *numbers, float scale, uint8_t *way)
{
    int count = kind->group / 8;
    scale_sums sums = {0, 0, 0}, down = {0, 0, 0};
    bool together = kind->signs == IN_GRID && !kind->each_shift;
    for (int i = 0; i < count; i++) {
        scale_sums first = way_sums(kind, &numbers[i], 0, scale), second = first;
        if (numbers[i].ways == 2) second = way_sums(kind, &numbers[i], 1, scale);
        bool other = !together && second.error < first.error;
        if (way) way[i] = other;
        add_sums(&sums, other ? &second : &first);
        add_sums(&down, &second);
    }
    if (!together || !(down.error < sums.error)) return sums;
    for (int i = 0; way && i < count; i++) way[i] = 1;
    return down;
}

/* The envelopes of numbers at + 0 .. 7. */
INLINE void find_lines(const grid_kind *kind, const float *table, grid_block *block, int at, float unit)
{
    eight *numbers = &block->eights[at / 8];
    bool odd = kind->signs == EVEN && __builtin_popcount(block->negative[at / 8]) % 2;
    bool two_parts = kind->width == 4;
    float p2[LARGEST], q[LARGEST], changed[LARGEST];
    numbers->ways = kind->signs == IN_GRID || (odd && two_parts) ? 2 : 1;
    for (int part = 0; part < 8 / kind->width; part++) {
        const float *x = block->x + at + kind->width * part, *w = block->w + at + kind->width * part;
        if (kind->signs == IN_GRID) {
            score_grid(table, kind->size, kind->width, x, w, SHIFT, p2, q, NULL);
            find_envelope(&numbers->lines[0][part], p2, q, kind->size, unit);
            score_grid(table, kind->size, kind->width, x, w, -SHIFT, p2, q, NULL);
            find_envelope(&numbers->lines[1][part], p2, q, kind->size, unit);
            continue;
        }
        score_grid(table, kind->size, kind->width, x, w, 0, p2, q, odd ? changed : NULL);
        if (!odd || two_parts) find_envelope(&numbers->lines[odd && part == 0][part], p2, q, kind->size, unit);
        if (odd) find_envelope(&numbers->lines[part][part], changed, q, kind->size, unit);
    }
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The scale of least error of a group by itself. */
INLINE float find_scale(const grid_kind *kind, const eight *numbers, float unit)
{
    enum { STARTS = 14, TURNS = 2 };
    float best = 0, least = INFINITY;
    for (int i = 0; i < STARTS + TURNS; i++) {
        static const float start[STARTS] = {0.35f, 0.4f, 0.455f, 0.52f, 0.59f, 0.675f, 0.77f,
                                            0.88f, 1.0f, 1.14f,  1.3f,  1.48f, 1.69f,  1.92f};
        float tried = i < STARTS ? start[i] * unit : best;
        scale_sums sums = group_sums(kind, numbers, tried, NULL);
        float fitted = sums.p2 / (2 * sums.q), error = -0.25f * sums.p2 * sums.p2 / sums.q;
        if (!(fitted > 0) || !(error < least)) continue;
        least = error;
        best = fitted;
    }
    return best;
}

/* A block's scale, those of its groups, and the error. */
typedef struct grid_plan {
    float d, error;
    uint8_t scale[16];
} grid_plan;

/* A number of a group's scale, about the one that is wanted, of least error; *sums gets its. */
INLINE int choose_scale(const grid_kind *kind, const eight *numbers, float unit, float wanted, scale_sums *sums)
{
    float place = 0.5f * (wanted / unit - 1);
    int last = kind->scales - 1, about = !(place > 0) ? 0 : place >= (float)last ? last : (int)(place + 0.5f), best = about;
    *sums = group_sums(kind, numbers, unit * (float)(2 * about + 1), NULL);
    for (int by = -1; by <= 1; by += 2) {
        if (about + by < 0 || about + by > last) continue;
        scale_sums other = group_sums(kind, numbers, unit * (float)(2 * (about + by) + 1), NULL);
        if (!(other.error < sums->error)) continue;
        *sums = other;
        best = about + by;
    }
    return best;
}

/* The plan of this d; *fitted gets the d that is best for its vectors and scales. */
INLINE grid_plan plan_block(const grid_kind *kind, const grid_block *block, float d, float *fitted)
{
    grid_plan plan = {.d = d, .error = 0};
    float unit = d * kind->step, p2 = 0, q = 0;
    for (int g = 0; g < BLOCK / kind->group; g++) {
        scale_sums sums;
        int scale = choose_scale(kind, block->eights + g * kind->group / 8, unit, block->wanted[g], &sums);
        float times = kind->step * (float)(2 * scale + 1);
        plan.scale[g] = (uint8_t)scale;
        plan.error += sums.error;
        p2 += times * sums.p2;
        q += times * times * sums.q;
    }
    *fitted = q > 0 ? p2 / (2 * q) : 0;
    return plan;
}

/* d as f16 keeps it; 2^exponent was taken out of the numbers. */
static float round_d(float d, int exponent)
{
    float whole = ldexpf(d, exponent);
    return ldexpf(zt_f16_to_f32(zt_f32_to_f16(whole > 65504 ? 65504 : whole)), -exponent);
}

/* Each of the larger scales is tried for the group that wants the largest, each d that comes of it fitted to what it
 * chose; and the best is fitted again. */
INLINE grid_plan find_plan(const grid_kind *kind, const grid_block *block, int exponent)
{
    enum { TURNS = 3 };
    float largest = 0, fitted;
    grid_plan best = {.error = INFINITY};
    int starts = kind->scales / 2;
    for (int g = 0; g < BLOCK / kind->group; g++) largest = block->wanted[g] > largest ? block->wanted[g] : largest;
    for (int start = 0; start <= starts; start++) {
        float times = kind->step * (float)(2 * (kind->scales - start) - 1);
        float d = start < starts ? largest / times : best.d;
        for (int turn = 0; turn < TURNS; turn++) {
            d = round_d(d, exponent);
            if (!(d > 0)) break;
            grid_plan plan = plan_block(kind, block, d, &fitted);
            if (plan.error < best.error)
                best = plan;
            else if (turn > 0)
                break;
            d = fitted;
        }
    }
    return best;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* A block as the layouts take it: 32 times eight numbers. */
typedef struct grid_codes {
    uint16_t vector[2 * EIGHTS]; /* of eight numbers at i: i, or 2 i and 2 i + 1 */
    uint8_t signs[EIGHTS];       /* a bit each, of the negative ones */
    uint8_t down[EIGHTS];        /* the shift of iq1 */
    uint8_t scale[16];
    uint16_t d;
} grid_codes;

/* Which of the numbers of a vector has the wrong sign at the least cost. */
static int change_sign(const grid_kind *kind, const float *table, const float *x, const float *w, int vector)
{
    int best = 0;
    float least = INFINITY;
    for (int j = 0; j < kind->width; j++) {
        float cost = w[j] * table[j * kind->size + vector] * x[j];
        if (cost < least) {
            least = cost;
            best = j;
        }
    }
    return best;
}

INLINE void code_eight(const grid_kind *kind, const float *table, const grid_block *block, int i, int way, float scale,
                       grid_codes *codes)
{
    const eight *numbers = &block->eights[i];
    int parts = 8 / kind->width;
    bool odd = kind->signs == EVEN && __builtin_popcount(block->negative[i]) % 2;
    codes->signs[i] = block->negative[i];
    codes->down[i] = kind->signs == IN_GRID && way == 1;
    for (int part = 0; part < parts; part++) {
        const envelope *lines = &numbers->lines[way][part];
        int at = 8 * i + kind->width * part, vector = lines->vector[least_of_envelope(lines, scale)];
        codes->vector[parts * i + part] = (uint16_t)vector;
        if (odd && (parts == 1 || part == way))
            codes->signs[i] ^=
                (uint8_t)(1 << (kind->width * part + change_sign(kind, table, block->x + at, block->w + at, vector)));
    }
}

INLINE void code_block(const grid_kind *kind, const float *table, const grid_block *block, const grid_plan *plan,
                       grid_codes *codes)
{
    for (int g = 0; g < BLOCK / kind->group; g++) {
        uint8_t way[4];
        int first = g * kind->group / 8;
        float scale = plan->d * kind->step * (float)(2 * plan->scale[g] + 1);
        codes->scale[g] = plan->scale[g];
        group_sums(kind, block->eights + first, scale, way);
        for (int i = 0; i < kind->group / 8; i++) code_eight(kind, table, block, first + i, way[i], scale, codes);
    }
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Where no importance is given, numbers weigh |x| and four times its mean: batch.h says why. */
static void weigh_group(const float *x, int count, float *w)
{
    float mean = 0;
    for (int j = 0; j < count; j++) mean += fabsf(x[j]);
    mean /= (float)count;
    for (int j = 0; j < count; j++) w[j] = mean > 0 ? (fabsf(x[j]) + 4 * mean) / (5 * mean) : 1;
}

/* Numbers below 1, 2^*exponent taken out of them; false: all are 0, or as good as. */
static bool load_block(const grid_kind *kind, const float *x, const float *w, grid_block *block, int *exponent)
{
    float most = 0;
    for (int j = 0; j < BLOCK; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    if (!(most > 0x1p-60f)) return false;
    frexpf(most, exponent);
    for (int g = 0; g < BLOCK / kind->group; g++) {
        block->largest[g] = 0;
        for (int j = kind->group * g; j < kind->group * (g + 1); j++) {
            float number = ldexpf(x[j], -*exponent), magnitude = fabsf(number);
            block->x[j] = kind->signs == IN_GRID ? number : magnitude;
            block->largest[g] = magnitude > block->largest[g] ? magnitude : block->largest[g];
        }
        if (!w) weigh_group(block->x + kind->group * g, kind->group, block->w + kind->group * g);
    }
    if (w) memcpy(block->w, w, sizeof block->w);
    for (int i = 0; i < EIGHTS; i++) {
        block->negative[i] = 0;
        for (int j = 0; j < 8; j++) block->negative[i] |= (uint8_t)((x[8 * i + j] < 0) << j);
    }
    return true;
}

/* false: the block is 0. */
INLINE bool quantize_block(const grid_kind *kind, const float *table, const float *x, const float *w, grid_codes *codes)
{
    grid_block block;
    int exponent = 0;
    if (!load_block(kind, x, w, &block, &exponent)) return false;
    for (int g = 0; g < BLOCK / kind->group; g++) {
        /* A group of zeros is as near to 0 as its block's least scale lets it be. */
        float unit = (block.largest[g] > 0x1p-20f ? block.largest[g] : 0x1p-20f) / kind->most;
        for (int at = kind->group * g; at < kind->group * (g + 1); at += 8) find_lines(kind, table, &block, at, unit);
        block.wanted[g] = find_scale(kind, block.eights + kind->group * g / 8, unit);
    }
    grid_plan plan = find_plan(kind, &block, exponent);
    if (!(plan.error < 0)) return false; /* 0 leaves less, or no d is left in f16 */
    codes->d = zt_f32_to_f16(ldexpf(plan.d, exponent));
    code_block(kind, table, &block, &plan, codes);
    return true;
}

/* ---- layouts: as dtype_iq.c draws them ------------------------------------------------------- */

static void put_u16(uint8_t *out, unsigned value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* Scales of four bits, two in a byte. */
static void put_scales(const grid_codes *codes, int count, uint8_t *out)
{
    for (int g = 0; g < count; g += 2) out[g / 2] = (uint8_t)(codes->scale[g] | codes->scale[g + 1] << 4);
}

/* Four times seven signs and a scale. */
static void put_signs_and_scale(const grid_codes *codes, int group, uint8_t *out)
{
    uint32_t word = (uint32_t)codes->scale[group] << 28;
    for (int k = 0; k < 4; k++) word |= (uint32_t)(codes->signs[4 * group + k] & 127) << 7 * k;
    memcpy(out, &word, 4);
}

static void put_iq2_xxs(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int group = 0; group < 8; group++) {
        for (int k = 0; k < 4; k++) out[2 + 8 * group + k] = (uint8_t)codes->vector[4 * group + k];
        put_signs_and_scale(codes, group, out + 6 + 8 * group);
    }
}

static void put_iq2_xs(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int k = 0; k < EIGHTS; k++) put_u16(out + 2 + 2 * k, codes->vector[k] | (codes->signs[k] & 127u) << 9);
    put_scales(codes, 16, out + 66);
}

static void put_iq2_s(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int k = 0; k < EIGHTS; k++) {
        out[2 + k] = (uint8_t)codes->vector[k];
        out[34 + k] = codes->signs[k];
        out[66 + k / 4] |= (uint8_t)(codes->vector[k] >> 8 << k % 4 * 2);
    }
    put_scales(codes, 16, out + 74);
}

static void put_iq3_xxs(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int k = 0; k < 2 * EIGHTS; k++) out[2 + k] = (uint8_t)codes->vector[k];
    for (int group = 0; group < 8; group++) put_signs_and_scale(codes, group, out + 66 + 4 * group);
}

static void put_iq3_s(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int k = 0; k < 2 * EIGHTS; k++) {
        out[2 + k] = (uint8_t)codes->vector[k];
        out[66 + k / 8] |= (uint8_t)(codes->vector[k] >> 8 << k % 8);
    }
    memcpy(out + 74, codes->signs, EIGHTS);
    put_scales(codes, 8, out + 106);
}

static void put_iq1_s(const grid_codes *codes, uint8_t *out)
{
    put_u16(out, codes->d);
    for (int group = 0; group < 8; group++) {
        unsigned word = (unsigned)codes->scale[group] << 12 | (unsigned)codes->down[4 * group] << 15;
        for (int k = 0; k < 4; k++) {
            out[2 + 4 * group + k] = (uint8_t)codes->vector[4 * group + k];
            word |= (unsigned)codes->vector[4 * group + k] >> 8 << 3 * k;
        }
        put_u16(out + 34 + 2 * group, word);
    }
}

static void put_iq1_m(const grid_codes *codes, uint8_t *out)
{
    for (int k = 0; k < EIGHTS; k++) {
        out[k] = (uint8_t)codes->vector[k];
        out[32 + k / 2] |= (uint8_t)((codes->vector[k] >> 8 | codes->down[k] << 3) << k % 2 * 4);
    }
    for (int i = 0; i < 4; i++) {
        unsigned word = (codes->d >> 4 * i & 15u) << 12;
        for (int k = 0; k < 4; k++) word |= (unsigned)codes->scale[4 * i + k] << 3 * k;
        put_u16(out + 48 + 2 * i, word);
    }
}

// clang-format off
#define TYPE(NAME, BYTES, ...)                                                                     \
    void ZT_ENCODER(search_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)        \
    {                                                                                              \
        static const grid_kind kind = {__VA_ARGS__};                                               \
        float table[LARGEST * 8];                                                                  \
        unpack_grid(&kind, table);                                                                 \
        for (int64_t at = 0; at < n; at += BLOCK, out += (BYTES)) {                                \
            grid_codes codes;                                                                      \
            memset(out, 0, BYTES);                                                                 \
            if (quantize_block(&kind, table, x + at, w ? w + at : NULL, &codes))                   \
                put_##NAME(&codes, out);                                                           \
        }                                                                                          \
    }
// clang-format on
TYPE(iq2_xxs, 66, zt_grid_iq2_xxs, 256, 8, iq2_levels, 43, EVEN, false, 32, 16, 0.125f)
TYPE(iq2_xs, 74, zt_grid_iq2_xs, 512, 8, iq2_levels, 43, EVEN, false, 16, 16, 0.125f)
TYPE(iq2_s, 82, zt_grid_iq2_s, 1024, 8, iq2_levels, 43, FREE, false, 16, 16, 0.125f)
TYPE(iq3_xxs, 98, zt_grid_iq3_xxs, 256, 4, iq3_levels, 62, EVEN, false, 32, 16, 0.25f)
TYPE(iq3_s, 110, zt_grid_iq3_s, 512, 4, odd_levels, 15, FREE, false, 32, 16, 1)
TYPE(iq1_s, 50, zt_grid_iq1_s, 2048, 8, iq1_levels, 1.125f, IN_GRID, false, 32, 8, 1)
TYPE(iq1_m, 56, zt_grid_iq1_s, 2048, 8, iq1_levels, 1.125f, IN_GRID, true, 16, 8, 1)
