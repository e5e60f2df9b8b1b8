/* mkmodel_delta.h - private to mkmodel.h, which includes it: layers that are gated delta nets. */
#ifndef ZT_MKMODEL_DELTA_H
#define ZT_MKMODEL_DELTA_H

/* Is the layer a gated delta net, whose heads are those of attention? */
GGUFW_FN bool mkmodel_is_delta(const mkmodel_opts *o, int64_t layer)
{
    return mkmodel_has(o->arch, MK_DELTA) && layer % 2 == 0 && layer < o->layers;
}

/* Numbers about -1. */
GGUFW_FN void mkmodel_rates(mkmodel_out *m, const char *name, int64_t count)
{
    float a[64];
    uint64_t sequence = m->sequence++;
    for (int64_t i = 0; i < count && i < 64; i++) a[i] = (float)(-0.8 - 0.4 * zt_uniform(m->o->seed, sequence, (uint64_t)i));
    ggufw_tensor(m->w, name, 0, 1, &count, a, (size_t)count * sizeof *a);
}

GGUFW_FN void mkmodel_layer_delta(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o, plain = {.arch = o->arch, .seed = o->seed, .type = &mkmodel_kinds[0]};
    int64_t keys = o->kv_heads * o->head, values = o->heads * o->head;
    double dev = 1 / sqrt((double)o->width), dev_out = 1 / sqrt((double)values);
    bool both = mkmodel_has(o->arch, MK_BETA_ALPHA);
    struct {
        const char *name;
        int64_t rows, cols; /* cols 0: a vector of `rows` values about 1 */
        double dev;
        bool wanted, plain;
    } part[] = {
        {"attn_qkv.weight", 2 * keys + values, o->width, dev, true, false},
        {"attn_gate.weight", values, o->width, dev, true, false},
        {"ssm_conv1d.weight", 2 * keys + values, 4, 0.5, true, true},
        {"ssm_dt.bias", o->heads, 0, 0, true, false},
        {"ssm_beta.weight", o->heads, o->width, dev, !both, false},
        {"ssm_alpha.weight", o->heads, o->width, dev, !both, false},
        {"ssm_ba.weight", 2 * o->heads, o->width, dev, both, false},
        {"ssm_norm.weight", o->head, 0, 0, true, false},
        {"ssm_out.weight", o->width, values, dev_out, true, false},
    };
    char name[64];
    snprintf(name, sizeof name, "blk.%lld.ssm_a", (long long)layer);
    mkmodel_rates(m, name, o->heads);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part[i].name);
        m->o = part[i].plain ? &plain : o;
        if (part[i].wanted && part[i].cols)
            mkmodel_matrix(m, name, part[i].rows, part[i].cols, part[i].dev);
        else if (part[i].wanted)
            mkmodel_norm(m, name, part[i].rows);
        m->o = o;
    }
}

#endif
