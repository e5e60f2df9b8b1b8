/* layers.c - zt-dna layers: what layers a model has, and where. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <stdio.h>

/* Columns of numbers as text. */
enum { NUMBER = 24 };

static zt_status put_layer(zt_table *t, const zt_dna_layer *l)
{
    char place[4][NUMBER], n[NUMBER], shape[ZT_TYPE_TEXT];
    for (int k = 0; k < 4; k++) snprintf(place[k], NUMBER, "%" PRId64, l->place[k]);
    snprintf(n, NUMBER, "%" PRId64, l->count);
    return zt_table_row(t, (const char *[]){place[0], place[1], place[2], place[3], l->type,
                                            l->dtype, dna_shape(&l->shape, shape), n, l->name});
}

zt_status dna_layers(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    static const char *const columns[] = {"#z",    "#y",    "#x",       "#l",  "type",
                                          "dtype", "shape", "#numbers", "name"};
    (void)n;
    zt_dna *d = dna_open(cli, o, operands[0]);
    zt_table *t = d ? zt_table_new(cli, "dna.layers", columns, 9) : NULL;
    zt_status s = t ? ZT_OK : zt_ctx_status(cli->ctx);
    for (int64_t i = 0; s == ZT_OK && i < zt_dna_count(d); i++)
        if (dna_selected(o, zt_dna_get(d, i)->name)) s = put_layer(t, zt_dna_get(d, i));
    if (s == ZT_OK) s = zt_table_print(t);
    zt_table_free(t);
    zt_dna_close(d);
    return s;
}
