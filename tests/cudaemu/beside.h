/* beside.h - for the emulated libraries beside the driver, cublas.cpp and cufft.cpp: they are users of
 * the driver, whose functions they find as a program does. */
#ifndef ZT_EMU_BESIDE_H
#define ZT_EMU_BESIDE_H

#define API extern "C" __attribute__((visibility("default")))

extern "C" {
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **params, void **extra);
}

/* Null: there is none of that name. */
static inline void *kernel_named(const char *name)
{
    void *module, *function;
    return cuModuleLoadData(&module, nullptr) || cuModuleGetFunction(&function, module, name) ? nullptr : function;
}

/* Whether the driver takes it. */
static inline bool launch(void *function, unsigned blocks, void *args, void *stream)
{
    void *params[] = {args};
    return cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, params, nullptr) == 0;
}

#endif
