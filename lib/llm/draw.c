/* draw.c - the inputs of op sample_token, so that it draws as zt_sample does: for each wanted row the sampler's
 * settings, the uniform number of its position, the recent tokens and the banned ones. */
#include "lib/engine/contract_bits.h"
#include "lib/llm/arch/arch.h"

#include <string.h>

struct zt_drawing {
    zt_ctx *ctx;
    double *u, *temp, *top_p, *min_p, *penalty; /* [rows] */
    int32_t *top_k, *recent, *banned;           /* [rows], [rows, RECENT], [rows, BANNED] */
};

bool zt_draw_fits(const zt_draw *draw)
{
    if (!draw) return false;
    if (!draw->sampler) return false;
    const zt_sampler *sampler = draw->sampler;
    return draw->n_banned <= ZT_DRAW_BANNED && sampler->top_k <= INT32_MAX && sampler->frequency_penalty == 0 &&
           sampler->presence_penalty == 0 &&
           (sampler->repeat_penalty == 1 || (sampler->repeat_last >= 0 && sampler->repeat_last <= ZT_DRAW_RECENT));
}

void zt_drawing_free(zt_drawing *drawing)
{
    if (!drawing) return;
    double *const doubles[] = {drawing->u, drawing->temp, drawing->top_p, drawing->min_p, drawing->penalty};
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) zt_free(drawing->ctx, doubles[i]);
    zt_free(drawing->ctx, drawing->top_k);
    zt_free(drawing->ctx, drawing->recent);
    zt_free(drawing->ctx, drawing->banned);
    zt_free(drawing->ctx, drawing);
}

zt_drawing *zt_drawing_new(zt_ctx *ctx, int64_t rows)
{
    size_t row_count = (size_t)rows;
    zt_drawing *drawing = zt_calloc(ctx, 1, sizeof *drawing);
    if (!drawing) return NULL;
    drawing->ctx = ctx;
    double **const doubles[] = {&drawing->u, &drawing->temp, &drawing->top_p, &drawing->min_p, &drawing->penalty};
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        *doubles[i] = zt_alloc_array(ctx, row_count, sizeof **doubles[i]);
    drawing->top_k = zt_alloc_array(ctx, row_count, sizeof *drawing->top_k);
    drawing->recent = zt_alloc_array(ctx, row_count, ZT_DRAW_RECENT * sizeof *drawing->recent);
    drawing->banned = zt_alloc_array(ctx, row_count, ZT_DRAW_BANNED * sizeof *drawing->banned);
    if (drawing->u && drawing->temp && drawing->top_p && drawing->min_p && drawing->penalty && drawing->top_k &&
        drawing->recent && drawing->banned)
        return drawing;
    zt_drawing_free(drawing);
    return NULL;
}

/* Unused places of the lists hold -1, which is no token. */
void zt_drawing_row(zt_drawing *drawing, int64_t row, const zt_draw *draw, const int32_t *ids, size_t count)
{
    const zt_sampler *sampler = draw->sampler;
    size_t total = draw->n_history + count, last = (size_t)sampler->repeat_last;
    int32_t *recent = drawing->recent + row * ZT_DRAW_RECENT, *banned = drawing->banned + row * ZT_DRAW_BANNED;
    drawing->u[row] = zt_uniform(sampler->seed, sampler->sequence, total);
    drawing->temp[row] = sampler->temp;
    drawing->top_k[row] = (int32_t)sampler->top_k;
    drawing->top_p[row] = sampler->top_p;
    drawing->min_p[row] = sampler->min_p;
    drawing->penalty[row] = (double)(float)sampler->repeat_penalty;
    memset(recent, -1, ZT_DRAW_RECENT * sizeof *recent);
    for (size_t entry = 0; sampler->repeat_penalty != 1 && entry < last && entry < total; entry++) {
        size_t position = total - 1 - entry;
        recent[entry] = position < draw->n_history ? draw->history[position] : ids[position - draw->n_history];
    }
    memset(banned, -1, ZT_DRAW_BANNED * sizeof *banned);
    for (size_t entry = 0; entry < draw->n_banned; entry++) banned[entry] = draw->banned[entry];
}

void zt_drawing_inputs(const zt_drawing *drawing, const void *in[ZT_DRAW_INPUTS])
{
    const void *const all[ZT_DRAW_INPUTS] = {drawing->u,     drawing->temp,    drawing->top_k,  drawing->top_p,
                                             drawing->min_p, drawing->penalty, drawing->recent, drawing->banned};
    memcpy(in, all, sizeof all);
}

int zt_drawing_build(zt_prog *program, int logits, int64_t row_count)
{
    int in[ZT_DRAW_INPUTS];
    static const struct {
        const char *name;
        zt_dtype dtype;
    } rows[] = {{"u", ZT_F64}, {"temp", ZT_F64}, {"top_k", ZT_I32}, {"top_p", ZT_F64}, {"min_p", ZT_F64}, {"penalty", ZT_F64}};
    for (int column = 0; column < 6; column++)
        in[column] = zt_prog_in(program, rows[column].name, rows[column].dtype, 1, &row_count);
    in[6] = zt_prog_in(program, "recent", ZT_I32, 2, (int64_t[]){row_count, ZT_DRAW_RECENT});
    in[7] = zt_prog_in(program, "banned", ZT_I32, 2, (int64_t[]){row_count, ZT_DRAW_BANNED});
    return zt_program_sample_token(program, "drawn", logits, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]);
}

bool zt_drawing_may(zt_engine *engine, int64_t vocab)
{
    zt_type row[2] = {zt_type_make(ZT_F64, 1, (int64_t[]){1}), zt_type_make(ZT_I32, 1, (int64_t[]){1})};
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){1, vocab});
    zt_type recent = zt_type_make(ZT_I32, 2, (int64_t[]){1, ZT_DRAW_RECENT});
    zt_type banned = zt_type_make(ZT_I32, 2, (int64_t[]){1, ZT_DRAW_BANNED}), out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {&x, &row[0], &row[0], &row[1], &row[0], &row[0], &row[0], &recent, &banned};
    if (zt_op_infer(NULL, ZT_OP_sample_token, NULL, in, out)) return false;
    return zt_engine_inmost(engine)->vt->devices && zt_engine_runs(engine, ZT_OP_sample_token, NULL, in, out);
}
