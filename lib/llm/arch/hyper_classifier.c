/* hyper_classifier.c - the classifier of texts that a file may have: its sizes, and the states that it reads. The key
 * classifier.softmax, whether scores become shares, is zt's own. */
#include "lib/llm/arch/hyper_internal.h"

/* Rows of a matrix; 0: the file does not have it. Another shape is bad data. */
static int64_t count_rows(zt_key_reader *reader, const char *name)
{
    zt_type type;
    char text[ZT_TYPE_TEXT];
    int64_t index = zt_gguf_find(reader->gguf, name);
    if (index < 0 || reader->status != ZT_OK) return 0;
    zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    if (type.rank == 2 && type.dim[0] > 0) return type.dim[0];
    reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: tensor '%s' is %s, expected a matrix", zt_gguf_name(reader->gguf), name,
                             type.rank < 0 ? "of an unknown type" : zt_type_text(&type, text));
    return 0;
}

/* What belongs to a matrix of the classifier is not there without it. */
static void refuse_without(zt_key_reader *reader, const char *matrix, const char *part)
{
    if (zt_gguf_find(reader->gguf, part) >= 0 && reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: tensor '%s' is missing, but '%s' is present",
                                 zt_gguf_name(reader->gguf), matrix, part);
}

enum { POOLED_BY_MEAN = 1, POOLED_FIRST = 2, RANKED = 4 };

/* A classifier is one matrix or two. It is used unless the file says that states are pooled. */
void zt_hyper_read_classifier(zt_key_reader *reader, zt_hyper *hyper)
{
    int64_t type = RANKED, mean = 0;
    int64_t first = reader->arch->head_act ? count_rows(reader, "cls.weight") : 0;
    int64_t last = reader->arch->head_act ? count_rows(reader, "cls.output.weight") : 0;
    bool given = zt_hyper_i64(reader, "pooling_type", &type);
    if (first == 0 && last == 0) {
        if (type == RANKED && given && reader->status == ZT_OK)
            reader->status =
                zt_fail(reader->ctx, ZT_EDATA, "%s: pooling_type is %d (rank), but tensor 'cls.output.weight' is missing",
                        zt_gguf_name(reader->gguf), RANKED);
        return;
    }
    if (first == 0) refuse_without(reader, "cls.weight", "cls.bias");
    if (first == 0) refuse_without(reader, "cls.weight", "cls.norm.weight");
    if (last == 0) refuse_without(reader, "cls.output.weight", "cls.output.bias");
    hyper->parts |= ZT_PART_CLASSIFIER;
    hyper->head_width = first ? first : hyper->width;
    hyper->labels = last ? last : first;
    hyper->classifies = type == RANKED;
    zt_hyper_require(reader, hyper->labels <= ZT_MAX_WIDTH && hyper->head_width <= ZT_MAX_WIDTH, "a classifier is too large",
                     hyper->labels, hyper->head_width);
    if (!hyper->classifies) return;
    if (zt_hyper_i64(reader, "classifier.pooling_type", &mean))
        zt_hyper_require(reader, mean == POOLED_BY_MEAN || mean == POOLED_FIRST,
                         "classifier.pooling_type is neither mean nor CLS", mean, POOLED_FIRST);
    hyper->head_mean = reader->arch->encoder && mean == POOLED_BY_MEAN;
    int64_t shares = reader->arch->head_softmax && hyper->labels > 1; /* of one score the share would be 1 */
    zt_hyper_flag(reader, "classifier.softmax", &shares);
    hyper->head_softmax = shares != 0;
    hyper->pooling = reader->arch->encoder ? ZT_POOL_FIRST : ZT_POOL_LAST;
}
