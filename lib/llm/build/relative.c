/* relative.c - the builder of learned biases of an encoder's attention (T5; Raffel et al., 2020): each head has one for a bucket
 * of distances. Half of the B buckets are for keys behind the query; of each half h = B/2 a quarter of B is for the distances
 * 0, 1, 2 ... of that many tokens, the others for ranges that grow as powers do, up to 128 tokens:
 *
 *     bucket(d) = min(d, h/2) + sum over k = 1 .. h/2 - 1 of [d >= start k]        start k: the least d with
 *                                                                                  ln(d / (h/2)) / ln(128 / (h/2)) (h/2) >= k
 */
#include "lib/llm/build/internal.h"
#include "lib/ops/rounded.h"

#include <stdio.h>

enum { FARTHEST = 128 };

/* The first distance of range k, in f32 as transformers computes it, with logarithms that are rounded once more. */
static int64_t range_start(int64_t exact, int64_t k)
{
    const float unit = (float)zt_rounded_log((double)FARTHEST / (double)exact);
    for (int64_t distance = exact;; distance++) {
        float place = (float)zt_rounded_log((double)((float)distance / (float)exact)) / unit * (float)exact;
        if (distance >= FARTHEST || (int64_t)place >= k) return distance;
    }
}

/* min(max(x - from, 0), most) */
static int ramp(zt_program_builder *builder, const char *shifted, const char *name, int x, double from, double most)
{
    x = zt_program_add_scalar(builder->program, shifted, x, &(zt_add_scalar_attrs){-from});
    return zt_program_clamp(builder->program, name, x, &(zt_clamp_attrs){0, most});
}

/* Key's position less the query's, f32[n,n]. */
static int emit_distances(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    zt_reshape_attrs column = {.shape = {2, {builder->row_count, 1}}}, row = {.shape = {2, {1, builder->row_count}}};
    int at = zt_program_cast(program, "b_pos", builder->pos, &(zt_cast_attrs){.to.s = "f32"});
    int query = zt_program_reshape(program, "b_query", at, &column), key = zt_program_reshape(program, "b_key", at, &row);
    return zt_program_sub(program, "b_far", key, query);
}

int zt_emit_relative(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    const zt_hyper *hyper = builder->hyper;
    int64_t rows = builder->row_count, half = hyper->buckets / 2, exact = half / 2;
    char shifted[24], name[24];
    if (!(hyper->parts & ZT_PART_RELATIVE)) return ZT_NONE;
    int away = emit_distances(builder), distance = zt_program_abs(program, "b_abs", away);
    int bucket = zt_emit_scale(builder, "b_behind", ramp(builder, "b_right", "b_one", away, 0, 1), (double)half);
    bucket = zt_program_add(program, "b_near", bucket, ramp(builder, "b_same", "b_exact", distance, 0, (double)exact));
    for (int64_t k = 1; k < half - exact; k++) {
        snprintf(shifted, sizeof shifted, "b_from%d", (int)k);
        snprintf(name, sizeof name, "b_step%d", (int)k);
        int step = ramp(builder, shifted, name, distance, (double)(range_start(exact, k) - 1), 1);
        snprintf(name, sizeof name, "b_sum%d", (int)k);
        bucket = zt_program_add(program, name, bucket, step);
    }
    int index = zt_program_cast(program, "b_index", bucket, &(zt_cast_attrs){.to.s = "i32"});
    int biases = zt_program_gather(program, "b_table", zt_weight_data(builder, ZT_W_RELATIVE), index, NULL);
    biases = zt_program_transpose(program, "b_heads", biases, &(zt_transpose_attrs){{3, {2, 0, 1}}});
    zt_reshape_attrs shape = {.shape = {4, {1, hyper->n_heads, rows, rows}}};
    return zt_program_reshape(program, "b", biases, &shape);
}
