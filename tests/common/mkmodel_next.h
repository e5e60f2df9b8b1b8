/* mkmodel_next.h - private to mkmodel.h, which includes it: layers behind the last that predict further tokens. */
#ifndef ZT_MKMODEL_NEXT_H
#define ZT_MKMODEL_NEXT_H

/* [width, 2 width]: the embedding as it is, and nothing of the hidden state. */
GGUFW_FN void mkmodel_embedding_alone(mkmodel_out *m, const char *name)
{
    const int64_t width = m->o->width, shape[] = {width, 2 * width};
    float *w = calloc((size_t)(2 * width * width), sizeof *w);
    if (!w) abort();
    for (int64_t i = 0; i < width; i++) w[i * 2 * width + i] = 1;
    ggufw_tensor(m->w, name, 0, 2, shape, w, (size_t)(2 * width * width) * sizeof *w);
    free(w);
}

GGUFW_FN void mkmodel_ones(mkmodel_out *m, const char *name)
{
    float *w = calloc((size_t)m->o->width, sizeof *w);
    if (!w) abort();
    for (int64_t i = 0; i < m->o->width; i++) w[i] = 1;
    ggufw_tensor(m->w, name, 0, 1, &m->o->width, w, (size_t)m->o->width * sizeof *w);
    free(w);
}

/* A planted head predicts what the model does, whose layers add nothing: a token follows from the one before it. */
GGUFW_FN void mkmodel_next_layers(mkmodel_out *m)
{
    const mkmodel_opts *o = m->o;
    for (int64_t layer = o->layers; layer < o->layers + o->next; layer++) {
        char name[64];
        mkmodel_layer(m, layer);
        snprintf(name, sizeof name, "blk.%lld.nextn.eh_proj.weight", (long long)layer);
        if (o->planted)
            mkmodel_embedding_alone(m, name);
        else
            mkmodel_matrix(m, name, o->width, 2 * o->width, 1 / sqrt(2 * (double)o->width));
        snprintf(name, sizeof name, "blk.%lld.nextn.enorm.weight", (long long)layer);
        if (o->planted)
            mkmodel_ones(m, name);
        else
            mkmodel_norm(m, name, o->width);
        snprintf(name, sizeof name, "blk.%lld.nextn.hnorm.weight", (long long)layer);
        mkmodel_norm(m, name, o->width);
        snprintf(name, sizeof name, "blk.%lld.nextn.shared_head_norm.weight", (long long)layer);
        if (!o->planted) mkmodel_norm(m, name, o->width);
    }
}

#endif
