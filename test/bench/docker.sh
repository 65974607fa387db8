# The bench of boxes that are containers: an engine of its own, the daemon, and the engine's command line beside it.
# Sourced by
# bench.sh for its part `docker`, which has WORK, BUILD, PORT. Where no engine can run, or there is no `docker`, one
# line says so.

docker_part() {
    local engine=$WORK/engine
    command -v docker > /dev/null || { printf '| %-44s |\n' 'docker: skipped, there is no docker command' && return; }
    # The daemon's file system is the engine's: what both write is written to the same disk.
    BUILD=$BUILD test/lib/docker.sh start "$engine" > "$WORK/engine.log" 2>&1 || {
        printf '| %-44s |\n' "docker: skipped, $(tail -1 "$WORK/engine.log" | cut -c1-200)"
        return
    }
    head -c 209715200 /dev/zero | tr '\0' x > "$WORK/large"
    DOCKER_HOST=unix://$engine/sock start_daemon
    export BENCH_ENGINE=unix://$engine/sock BENCH_IMAGE=cubby-test/debian:1 BENCH_LARGE=$WORK/large \
        BENCH_DOCKER=$(command -v docker)
    PART=docker part docker
    stop_daemon
    BUILD=$BUILD test/lib/docker.sh end "$engine" > /dev/null 2>&1
}
