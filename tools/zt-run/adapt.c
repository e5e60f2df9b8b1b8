/* adapt.c - --lora: adapters applied as the model's tensors are read. */
#include "tools/zt-run/run.h"

zt_status run_adapt(run_state *run)
{
    const zt_opt_list *given = &run->options->adapters;
    zt_status status = ZT_OK;
    if (!given->n) return ZT_OK;
    for (int i = 0; i < given->n && status == ZT_OK; i++)
        status = zt_adapters_add_text(run->cli, &run->adapters, given->item[i]);
    if (status != ZT_OK)
        return status;
    run->base_model = zt_checkpoint_of_gguf(run->ctx, run->gguf); /* takes it over */
    run->gguf = NULL;
    zt_adapted *adapted =
        run->base_model ? zt_adapted_new(run->ctx, run->base_model, run->adapters.adapters, run->adapters.count, &(zt_adapted_opts){0})
                        : NULL;
    if (adapted)
        zt_adapters_tell(run->cli, adapted);
    if (adapted)
        run->gguf = zt_checkpoint_gguf(zt_adapted_release(adapted));
    return run->gguf ? ZT_OK : zt_ctx_status(run->ctx);
}

void run_unadapt(run_state *run)
{
    zt_checkpoint_close(run->base_model);
    zt_adapters_close(&run->adapters);
}
