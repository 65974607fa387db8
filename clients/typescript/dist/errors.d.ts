/** A request that failed. `message` is the daemon's own sentence, which says what is wrong and how to fix it. */
export declare class CubbyError extends Error {
    code: string;
    status: number | undefined;
    requestId: string | undefined;
    /** Seconds after which trying again makes sense, of Limit and Busy. */
    retryAfter: number | undefined;
    constructor(message: string);
}
/** The request does not make sense. */
export declare class Invalid extends CubbyError {
}
/** No token, an unknown one, or one that was revoked or has expired. */
export declare class Unauthorized extends CubbyError {
}
/** Not allowed to this user, or not to this token. */
export declare class Denied extends CubbyError {
}
/** A box, process, session, snapshot ... that does not exist. */
export declare class NotFound extends CubbyError {
}
/** A file of a box that does not exist. */
export declare class FileNotFound extends NotFound {
}
/** It existed, and does not any more. */
export declare class Gone extends NotFound {
}
/** The name is taken, or the file changed in the meantime (ifMatch). */
export declare class Exists extends CubbyError {
}
/** Larger than the daemon accepts. */
export declare class TooLarge extends CubbyError {
}
/** A limit of the user or of the box is reached. */
export declare class Limit extends CubbyError {
}
/** Somebody else works on it, or the daemon has too much to do. */
export declare class Busy extends CubbyError {
}
/** The box is paused: resume it first. */
export declare class Paused extends CubbyError {
}
/** No space left. */
export declare class Full extends CubbyError {
}
/** The daemon or the box could not read or write. */
export declare class InputOutput extends CubbyError {
}
/** This daemon, this machine or this runtime cannot do that. */
export declare class Unsupported extends CubbyError {
}
/** It took longer than allowed. */
export declare class Timeout extends CubbyError {
}
/** A defect of the daemon. */
export declare class Internal extends CubbyError {
}
/** What came back is not what a cubby daemon answers. */
export declare class Protocol extends CubbyError {
}
/** No connection to the daemon, or it ended in the middle. `sent`: whether the daemon may have seen the request. */
export declare class Unreachable extends CubbyError {
    readonly sent: boolean;
    code: string;
    constructor(message: string, sent: boolean);
}
/** The daemon's TLS certificate is not one to trust. */
export declare class BadCertificate extends Unreachable {
    code: string;
}
/** The error for an answer that is one. `files`: the request named a file. */
export declare function errorOf(status: number, error: {
    code?: string;
    message?: string;
}, header: (name: string) => string | null, files: boolean): CubbyError;
