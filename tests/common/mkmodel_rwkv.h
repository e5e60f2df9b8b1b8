/* mkmodel_rwkv.h - private to mkmodel.h, which includes it: layers of RWKV-7, with a channel mix (rwkv7) or a usual feed-forward
 * (arwkv7). Ranks are half the width, so that rows are whole blocks. */
#ifndef ZT_MKMODEL_RWKV_H
#define ZT_MKMODEL_RWKV_H

GGUFW_FN int64_t mkmodel_rank(const mkmodel_opts *o) { return o->width / 2; }

GGUFW_FN void mkmodel_rwkv_keys(const mkmodel_opts *o, ggufw *writer)
{
    bool channels = mkmodel_has(o->arch, MK_CHANNEL_MIX);
    const int64_t rank = mkmodel_rank(o);
    const struct {
        const char *name;
        int64_t value;
    } number[] = {
        {"context_length", o->ctx},         {"embedding_length", o->width},
        {"block_count", o->layers},         {"feed_forward_length", o->ffn},
        {"wkv.head_size", o->head},         {"attention.decay_lora_rank", rank},
        {"attention.iclr_lora_rank", rank}, {"attention.value_residual_mix_lora_rank", rank},
        {"attention.gate_lora_rank", rank}, {"token_shift_count", channels ? 2 : 1},
    };
    char key[96];
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, number[i].name);
        ggufw_u32(writer, key, (uint32_t)number[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", o->arch, channels ? "" : "rms_");
    ggufw_f32(writer, key, 1e-5f);
}

/* f32, `count` numbers from -1 to 1, of the shape [stack,1,1,count] where stack is not 0. */
GGUFW_FN void mkmodel_spread(mkmodel_out *m, const char *name, int64_t stack, int64_t count)
{
    int64_t all = (stack ? stack : 1) * count;
    float *x = malloc((size_t)all * sizeof *x);
    uint64_t sequence = m->sequence++;
    if (!x) abort();
    for (int64_t i = 0; i < all; i++) x[i] = (float)(2 * zt_uniform(m->o->seed, sequence, (uint64_t)i) - 1);
    ggufw_tensor(m->w, name, 0, stack ? 4 : 1, stack ? (int64_t[]){stack, 1, 1, count} : &count, x, (size_t)all * sizeof *x);
    free(x);
}

GGUFW_FN void mkmodel_layer_rwkv(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o, plain = {.arch = o->arch, .seed = o->seed, .type = &mkmodel_kinds[0]};
    const int64_t width = o->width, rank = mkmodel_rank(o);
    const double dev = 1 / sqrt((double)width), dev_rank = 1 / sqrt((double)rank), dev_ff = 1 / sqrt((double)o->ffn);
    bool channels = mkmodel_has(o->arch, MK_CHANNEL_MIX);
    enum { NORM, SPREAD, LERPS, MATRIX, SMALL }; /* SMALL: a matrix that is not quantized */
    const struct {
        const char *name;
        int kind;
        int64_t rows, cols;
        double dev;
        bool wanted;
    } part[] = {
        {"attn_norm.weight", NORM, width, 0, 0, true},
        {"attn_norm.bias", SPREAD, width, 0, 0, channels},
        {"attn_norm_2.weight", NORM, width, 0, 0, channels},
        {"attn_norm_2.bias", SPREAD, width, 0, 0, channels},
        {"ffn_norm.weight", NORM, width, 0, 0, !channels},
        {"time_mix_lerp_fused.weight", LERPS, 6, width, 0, true},
        {"time_mix_w0.weight", SPREAD, width, 0, 0, true},
        {"time_mix_w1.weight", SMALL, rank, width, dev, true},
        {"time_mix_w2.weight", SMALL, width, rank, dev_rank, true},
        {"time_mix_a0.weight", SPREAD, width, 0, 0, true},
        {"time_mix_a1.weight", SMALL, rank, width, dev, true},
        {"time_mix_a2.weight", SMALL, width, rank, dev_rank, true},
        {"time_mix_v0.weight", SPREAD, width, 0, 0, true},
        {"time_mix_v1.weight", SMALL, rank, width, dev, true},
        {"time_mix_v2.weight", SMALL, width, rank, dev_rank, true},
        {"time_mix_g1.weight", SMALL, rank, width, dev, true},
        {"time_mix_g2.weight", SMALL, width, rank, dev_rank, true},
        {"time_mix_k_k.weight", NORM, width, 0, 0, true},
        {"time_mix_k_a.weight", NORM, width, 0, 0, true},
        {"time_mix_r_k.weight", SPREAD, width, 0, 0, true},
        {"time_mix_key.weight", MATRIX, width, width, dev, true},
        {"time_mix_value.weight", MATRIX, width, width, dev, true},
        {"time_mix_receptance.weight", MATRIX, width, width, dev, true},
        {"time_mix_ln.weight", NORM, width, 0, 0, true},
        {"time_mix_ln.bias", SPREAD, width, 0, 0, true},
        {"time_mix_output.weight", MATRIX, width, width, dev, true},
        {"channel_mix_lerp_k.weight", SPREAD, width, 0, 0, channels},
        {"channel_mix_key.weight", MATRIX, o->ffn, width, dev, channels},
        {"channel_mix_value.weight", MATRIX, width, o->ffn, dev_ff, channels},
        {"ffn_gate.weight", MATRIX, o->ffn, width, dev, !channels},
        {"ffn_up.weight", MATRIX, o->ffn, width, dev, !channels},
        {"ffn_down.weight", MATRIX, width, o->ffn, dev_ff, !channels},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part[i].name);
        if (!part[i].wanted) continue;
        m->o = part[i].kind == SMALL ? &plain : o;
        if (part[i].kind == NORM) mkmodel_norm(m, name, part[i].rows);
        if (part[i].kind == SPREAD) mkmodel_spread(m, name, 0, part[i].rows);
        if (part[i].kind == LERPS) mkmodel_spread(m, name, part[i].rows, part[i].cols);
        if (part[i].kind >= MATRIX) mkmodel_matrix(m, name, part[i].rows, part[i].cols, part[i].dev);
        m->o = o;
    }
}

#endif
