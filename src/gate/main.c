/* cubby-gate: started by the daemon with the control channel as descriptor 3. Reads how it is to run, gives up
 * everything it does not need, then serves boxes until the daemon ends. */
#include "gate/program.h"

static void main_machine(const json_t *hello) {
    const json_t *networks = json_object_get(hello, "open_networks"), *ports = json_object_get(hello, "host_ports");
    struct address_network *open = xcalloc(json_array_size(networks) + 1, sizeof *open);
    uint16_t *host_ports = xcalloc(json_array_size(ports) + 1, sizeof *host_ports);
    uint64_t port;
    for (size_t i = 0; i < json_array_size(networks); i++) {
        struct err err = {0};
        if (address_network_text(json_string_value(json_array_get(networks, i)), &open[machine.open_count], &err) == 0)
            machine.open_count++;
        else
            fprintf(stderr, "cubby-gate: open_networks: %s\n", err.text);
    }
    for (size_t i = 0; i < json_array_size(ports); i++)
        if (text_u64(json_string_value(json_array_get(ports, i)), 65535, &port))
            host_ports[machine.host_port_count++] = (uint16_t)port;
    machine.open = open;
    machine.host_ports = host_ports;
}

int main(void) {
    json_t *hello = control_hello(GATE_CONTROL_FD);
    main_machine(hello);
    loop_begin();
    resolve_begin(json_object_get(hello, "resolvers"));
    confine_own_addresses();
    confine(hello);
    json_decref(hello);
    control_begin(GATE_CONTROL_FD);
    loop_run();
}
