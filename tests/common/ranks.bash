# ranks.bash - for tests that run tools on several ranks: `load ../common/ranks` after the helper.

need_mpi() {
    command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "no mpirun of Open MPI (openmpi-bin)"
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "MPI's own leaks and races would be reported"
}

# mpirun's banners go with -q; a test may be root, and have fewer processors than ranks.
on_ranks() { # N COMMAND...
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
        mpirun -q --oversubscribe -n "$@"
}
