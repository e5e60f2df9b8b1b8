/* layers.c - zt-dna layers: what layers a model has, and where. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <stdio.h>

/* Columns of numbers as text. */
enum { NUMBER = 24 };

static zt_status put_layer(zt_table *table, const zt_dna_layer *layer)
{
    char place[4][NUMBER], count_text[NUMBER], shape[ZT_TYPE_TEXT];
    for (int k = 0; k < 4; k++) snprintf(place[k], NUMBER, "%" PRId64, layer->place[k]);
    snprintf(count_text, NUMBER, "%" PRId64, layer->count);
    return zt_table_row(table, (const char *[]){place[0], place[1], place[2], place[3], layer->type, layer->dtype,
                                                dna_shape(&layer->shape, shape), count_text, layer->name});
}

zt_status dna_layers(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    static const char *const columns[] = {"#z", "#y", "#x", "#l", "type", "dtype", "shape", "#numbers", "name"};
    (void)count;
    zt_dna *model = dna_open(cli, options, operands[0]);
    zt_table *table = model ? zt_table_new(cli, "dna.layers", columns, 9) : NULL;
    zt_status status = table ? ZT_OK : zt_ctx_status(cli->ctx);
    for (int64_t i = 0; status == ZT_OK && i < zt_dna_count(model); i++)
        if (dna_selected(options, zt_dna_get(model, i)->name)) status = put_layer(table, zt_dna_get(model, i));
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    zt_dna_close(model);
    return status;
}
