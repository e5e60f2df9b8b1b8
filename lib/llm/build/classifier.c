/* classifier.c - the builder of a classifier, which scores a text by the states of one token, or by their mean: rerankers
 * and models for labels.
 *
 *     y = labels (norm(act(head x + bias))) + bias        each part where the file has it
 *
 * It is computed for every row; the caller takes the one that counts.
 */
#include "lib/llm/build/internal.h"

/* Every row becomes the mean of all rows: those of an encoder are one text. */
static int average_rows(zt_program_builder *builder, int x)
{
    zt_broadcast_to_attrs shape = {.shape = {2, {builder->row_count, builder->hyper->width}}};
    int mean = zt_program_mean(builder->program, "head_mean", x, &(zt_mean_attrs){.axes = {1, {0}}, .keepdims = 1});
    return zt_program_broadcast_to(builder->program, "head_rows", mean, ZT_NONE, &shape);
}

int zt_emit_classifier(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    int head = zt_weight_data(builder, ZT_W_HEAD), labels = zt_weight_data(builder, ZT_W_LABELS);
    if (hyper->head_mean) x = average_rows(builder, x);
    if (head != ZT_NONE) {
        x = zt_emit_linear(builder, "head", x, head, zt_weight_data(builder, ZT_W_HEAD_BIAS), true);
        x = hyper->arch->head_act(builder->program, "head_act", x, ZT_NONE);
        x = zt_emit_norm(builder, "head_norm", x, ZT_W_HEAD_NORM, ZT_WEIGHT_COUNT, 0);
    }
    if (labels != ZT_NONE) x = zt_emit_linear(builder, "labels", x, labels, zt_weight_data(builder, ZT_W_LABELS_BIAS), true);
    if (!hyper->head_softmax) return x;
    return zt_program_softmax(builder->program, "shares", x, &(zt_softmax_attrs){-1});
}
