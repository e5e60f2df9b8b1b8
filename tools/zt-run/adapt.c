/* adapt.c - --lora: adapters applied as the model's tensors are read. */
#include "tools/zt-run/run.h"

zt_status run_adapt(run *r)
{
    const zt_opt_list *given = &r->o->lora;
    zt_status s = ZT_OK;
    if (!given->n) return ZT_OK;
    for (int i = 0; i < given->n && s == ZT_OK; i++)
        s = zt_adapters_add_text(r->cli, &r->adapters, given->item[i]);
    if (s != ZT_OK) return s;
    r->base = zt_checkpoint_of_gguf(r->ctx, r->gguf); /* takes it over */
    r->gguf = NULL;
    zt_adapted *a = r->base ? zt_adapted_new(r->ctx, r->base, r->adapters.adapters, r->adapters.count,
                                             &(zt_adapted_opts){0})
                            : NULL;
    if (a) zt_adapters_tell(r->cli, a);
    if (a) r->gguf = zt_checkpoint_gguf(zt_adapted_release(a));
    return r->gguf ? ZT_OK : zt_ctx_status(r->ctx);
}

void run_unadapt(run *r)
{
    zt_checkpoint_close(r->base);
    zt_adapters_close(&r->adapters);
}
