import type { Channel, Reply, Request, Transport } from './transport.js';
export declare class NodeTransport implements Transport {
    private readonly options;
    private readonly prefix;
    private readonly module;
    private readonly where;
    constructor(url: string, ca: string | undefined);
    private authorities;
    private failure;
    private open;
    request(request: Request): Promise<Reply>;
    private send;
    private read;
    channel(path: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Channel>;
    close(): void;
}
