/* dense.c - owns layers that take a row of numbers: dense, SwiGLU, norms, embedding, k-means. */
#include "lib/nn/nn_internal.h"

nn_value zt_layer_emit_dense(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = zt_layer_matrix(w, l, x, l->input_height);
    y.id = zt_program_linear(w->p, NULL, y.id, zt_layer_weight(w, l, 0), ZT_NONE, NULL);
    y.dim[1] = l->output_height;
    return zt_layer_like(w, y, x, l->input_height, l->output_height);
}

/* down(silu(gate(x)) * up(x)): Shazeer, "GLU Variants Improve Transformer" (2020). */
nn_value zt_layer_emit_swiglu(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = zt_layer_matrix(w, l, x, l->input_height);
    int gate =
        zt_program_linear(w->p, NULL, y.id, zt_layer_weight(w, l, 0), zt_layer_weight(w, l, 3), NULL);
    int up =
        zt_program_linear(w->p, NULL, y.id, zt_layer_weight(w, l, 1), zt_layer_weight(w, l, 4), NULL);
    int h = zt_program_swiglu(w->p, NULL, gate, up);
    y.id = zt_program_linear(w->p, NULL, h, zt_layer_weight(w, l, 2), zt_layer_weight(w, l, 5), NULL);
    return zt_layer_like(w, y, x, l->input_height, l->input_height);
}

nn_value zt_layer_emit_rms_norm(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = zt_layer_matrix(w, l, x, l->input_height);
    y.id = zt_program_rms_norm(w->p, NULL, y.id, zt_layer_weight(w, l, 0),
                            &(zt_rms_norm_attrs){.eps = l->eps > 0 ? l->eps : 1e-6}, NULL);
    return zt_layer_reshape(w, y, x.rank, x.dim);
}

nn_value zt_layer_emit_layer_norm(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = zt_layer_matrix(w, l, x, l->input_height);
    y.id =
        zt_program_layer_norm(w->p, NULL, y.id, zt_layer_weight(w, l, 0), zt_layer_weight(w, l, 1),
                           &(zt_layer_norm_attrs){.eps = l->eps > 0 ? l->eps : 1e-5}, NULL, NULL);
    return zt_layer_reshape(w, y, x.rank, x.dim);
}

/* Ids come as floats; one outside the vocabulary gives a row of zeros. */
nn_value zt_layer_emit_embedding(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    if (x.rank == ZT_MAX_RANK) return zt_layer_refuse(w, l, "%d dimensions of ids", x.rank);
    int ids = zt_program_cast(w->p, NULL, x.id, &(zt_cast_attrs){.to = {"i32"}, .saturate = 1});
    nn_value y = x;
    y.id = zt_program_gather(w->p, NULL, zt_layer_weight(w, l, 0), ids, &(zt_gather_attrs){{"zero"}});
    y.dim[y.rank++] = l->embedding_dim;
    return y;
}

/* softmax(-|x - c|^2 / (2 T^2)) over the centres c; `features`: the mix of the centres by these. */
nn_value zt_layer_emit_kmeans(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    double T = l->kmeans_temperature != 0 ? l->kmeans_temperature : 1;
    nn_value y = zt_layer_matrix(w, l, x, l->input_height);
    nn_value each = zt_layer_reshape(w, y, 3, (int64_t[]){y.dim[0], 1, l->input_height});
    int c = zt_layer_weight(w, l, 0), apart = zt_program_sub(w->p, NULL, each.id, c);
    int far = zt_program_sum(w->p, NULL, zt_program_square(w->p, NULL, apart),
                          &(zt_sum_attrs){.axes = {1, {-1}}});
    int logit = zt_program_scale(w->p, NULL, far, &(zt_scale_attrs){-1 / (2 * T * T)});
    y.id = zt_program_softmax(w->p, NULL, logit, NULL);
    if (l->features) y.id = zt_program_matmul(w->p, NULL, y.id, c, NULL);
    y.dim[1] = l->features ? l->input_height : l->num_clusters;
    return zt_layer_like(w, y, x, l->input_height, y.dim[1]);
}
