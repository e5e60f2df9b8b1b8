/* mkmodel_gemma.h - made models of Gemma 3n and Gemma 4, a part of mkmodel.h: layers with a window and without in turns, of the
 * latter with heads twice as long and half the key heads (4), and in models of more than three layers two that read another's
 * cache, with feed-forwards twice as long (4). */
#ifndef ZT_MKMODEL_GEMMA_H
#define ZT_MKMODEL_GEMMA_H

#define MK_STREAMS 4

typedef struct mkmodel_gemma {
    bool local, shared, four;
    int64_t head, kv_heads, ffn;
} mkmodel_gemma;

GGUFW_FN mkmodel_gemma mkmodel_gemma_layer_of(const mkmodel_opts *o, int64_t layer)
{
    mkmodel_gemma g = {
        .local = layer % 2 == 0, .shared = o->layers > 3 && layer >= o->layers - 2, .four = !mkmodel_has(o->arch, MK_ALTUP)};
    bool other = g.four && !g.local;
    g.head = other ? 2 * o->head : o->head;
    g.kv_heads = other && o->kv_heads % 2 == 0 ? o->kv_heads / 2 : o->kv_heads;
    g.ffn = g.four && g.shared ? 2 * o->ffn : o->ffn;
    return g;
}

/* Length of a token's embedding for a layer, and the rank of Laurel: a block of any type. */
GGUFW_FN int64_t mkmodel_gemma_short(const mkmodel_opts *o) { return zt_dtype_get(o->type->dtype)->block > 32 ? 256 : 32; }

GGUFW_FN void mkmodel_gemma_key(const mkmodel_opts *o, ggufw *writer, const char *suffix, uint32_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", o->arch, suffix);
    ggufw_u32(writer, key, value);
}

GGUFW_FN void mkmodel_gemma_list(const mkmodel_opts *o, ggufw *writer, const char *suffix, uint32_t kind, const void *list,
                                 size_t size)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", o->arch, suffix);
    ggufw_array(writer, key, kind, (uint64_t)o->layers, list, (size_t)o->layers * size);
}

GGUFW_FN void mkmodel_gemma_keys(const mkmodel_opts *o, ggufw *writer)
{
    enum { I32 = 5, F32 = 6, BOOL = 7, MOST = 64 };
    uint8_t local[MOST];
    int32_t ffn[MOST], kv_heads[MOST];
    float cutoff[MOST];
    bool four = !mkmodel_has(o->arch, MK_ALTUP);
    int64_t shared = 0;
    for (int64_t layer = 0; layer < o->layers; layer++) {
        mkmodel_gemma g = mkmodel_gemma_layer_of(o, layer);
        local[layer] = g.local;
        shared += g.shared;
        ffn[layer] = (int32_t)g.ffn;
        kv_heads[layer] = (int32_t)g.kv_heads;
        cutoff[layer] = layer == 0 ? 0.25f : -INFINITY;
    }
    mkmodel_gemma_list(o, writer, "attention.sliding_window_pattern", BOOL, local, sizeof *local);
    mkmodel_gemma_list(o, writer, "feed_forward_length", I32, ffn, sizeof *ffn);
    mkmodel_gemma_key(o, writer, "attention.shared_kv_layers", (uint32_t)shared);
    mkmodel_gemma_key(o, writer, "embedding_length_per_layer_input", (uint32_t)mkmodel_gemma_short(o));
    if (mkmodel_experts(o)) mkmodel_gemma_key(o, writer, "expert_feed_forward_length", (uint32_t)mkmodel_expert_ff(o));
    if (four) {
        mkmodel_gemma_list(o, writer, "attention.head_count_kv", I32, kv_heads, sizeof *kv_heads);
        mkmodel_gemma_key(o, writer, "attention.key_length_swa", (uint32_t)o->head);
        mkmodel_gemma_key(o, writer, "attention.value_length_swa", (uint32_t)o->head);
        mkmodel_gemma_key(o, writer, "rope.dimension_count", (uint32_t)(2 * o->head));
        mkmodel_gemma_key(o, writer, "rope.dimension_count_swa", (uint32_t)o->head);
        return;
    }
    mkmodel_gemma_key(o, writer, "attention.head_count_kv", (uint32_t)o->kv_heads);
    mkmodel_gemma_list(o, writer, "activation_sparsity_scale", F32, cutoff, sizeof *cutoff);
    mkmodel_gemma_key(o, writer, "altup.num_inputs", MK_STREAMS);
    mkmodel_gemma_key(o, writer, "altup.active_idx", 0);
}

/* What belongs to no layer. */
GGUFW_FN void mkmodel_gemma_once(mkmodel_out *m)
{
    const mkmodel_opts *o = m->o;
    int64_t length = o->layers * mkmodel_gemma_short(o), pairs = o->head;
    double dev = 1 / sqrt((double)o->width);
    float divisors[512];
    mkmodel_matrix(m, "per_layer_token_embd.weight", o->vocab, length, 1 / sqrt((double)mkmodel_gemma_short(o)));
    mkmodel_matrix(m, "per_layer_model_proj.weight", length, o->width, 1);
    mkmodel_norm(m, "per_layer_proj_norm.weight", mkmodel_gemma_short(o));
    for (int64_t i = 0; i < pairs; i++) divisors[i] = i < pairs / 4 ? 1 : 1e30f;
    if (!mkmodel_has(o->arch, MK_ALTUP)) {
        ggufw_tensor(m->w, "rope_freqs.weight", 0, 1, &pairs, divisors, (size_t)pairs * sizeof *divisors);
        return;
    }
    mkmodel_stack(m, "altup_proj.weight", MK_STREAMS - 1, o->width, o->width, dev);
    mkmodel_stack(m, "altup_unembd_proj.weight", MK_STREAMS - 1, o->width, o->width, dev);
}

/* Experts beside the feed-forward, with what goes with them. */
GGUFW_FN void mkmodel_gemma_experts(mkmodel_out *m, int64_t layer)
{
    static const char *const norms[] = {"post_ffw_norm_1.weight", "pre_ffw_norm_2.weight", "post_ffw_norm_2.weight",
                                        "ffn_gate_inp.scale"};
    char name[64];
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, norms[i]);
        mkmodel_norm(m, name, m->o->width);
    }
    snprintf(name, sizeof name, "blk.%lld.ffn_down_exps.scale", (long long)layer);
    mkmodel_norm(m, name, mkmodel_experts(m->o));
}

/* What a layer of Gemma 3n or 4 has besides those of other models. */
GGUFW_FN void mkmodel_gemma_layer(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o;
    const mkmodel_opts plain = {.arch = o->arch, .seed = o->seed, .type = &mkmodel_kinds[0]};
    double dev = 1 / sqrt((double)o->width), few = 1 / sqrt((double)mkmodel_gemma_short(o));
    int64_t length = mkmodel_gemma_short(o);
    struct {
        const char *name;
        int64_t rows, cols; /* cols 0: a vector of `rows` values about 1 */
        double dev;
        bool plain, streams;
    } part[] = {
        {"inp_gate.weight", length, o->width, dev, false, false},
        {"proj.weight", o->width, length, few, false, false},
        {"post_norm.weight", o->width, 0, 0, false, false},
        {"altup_router.weight", MK_STREAMS, o->width, 4, true, true},
        {"altup_router_norm.weight", o->width, 0, 0, false, true},
        {"altup_predict_coef.weight", MK_STREAMS * MK_STREAMS, MK_STREAMS, 0.3, true, true},
        {"altup_correct_coef.weight", MK_STREAMS, MK_STREAMS, 0.3, true, true},
        {"altup_correct_scale.weight", o->width, 0, 0, false, true},
        {"laurel_l.weight", length, o->width, dev, false, true},
        {"laurel_r.weight", o->width, length, few, false, true},
        {"laurel_post_norm.weight", o->width, 0, 0, false, true},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part[i].name);
        if (part[i].streams && !mkmodel_has(o->arch, MK_ALTUP)) continue;
        m->o = part[i].plain ? &plain : o;
        if (part[i].cols)
            mkmodel_matrix(m, name, part[i].rows, part[i].cols, part[i].dev);
        else
            mkmodel_norm(m, name, part[i].rows);
        m->o = o;
    }
    if (mkmodel_has(o->arch, MK_ALTUP)) return;
    char name[64];
    snprintf(name, sizeof name, "blk.%lld.layer_output_scale.weight", (long long)layer);
    mkmodel_norm(m, name, 1);
    if (mkmodel_experts(o)) mkmodel_gemma_experts(m, layer);
}

#endif
