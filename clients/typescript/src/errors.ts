// What can go wrong: one class for each code of the API.

/** A request that failed. `message` is the daemon's own sentence, which says what is wrong and how to fix it. */
export class CubbyError extends Error {
  code = 'INTERNAL';
  status: number | undefined;
  requestId: string | undefined;
  /** Seconds after which trying again makes sense, of Limit and Busy. */
  retryAfter: number | undefined;
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The request does not make sense. */
export class Invalid extends CubbyError {}
/** No token, an unknown one, or one that was revoked or has expired. */
export class Unauthorized extends CubbyError {}
/** Not allowed to this user, or not to this token. */
export class Denied extends CubbyError {}
/** A box, process, session, snapshot ... that does not exist. */
export class NotFound extends CubbyError {}
/** A file of a box that does not exist. */
export class FileNotFound extends NotFound {}
/** It existed, and does not any more. */
export class Gone extends NotFound {}
/** The name is taken, or the file changed in the meantime (ifMatch). */
export class Exists extends CubbyError {}
/** Larger than the daemon accepts. */
export class TooLarge extends CubbyError {}
/** A limit of the user or of the box is reached. */
export class Limit extends CubbyError {}
/** Somebody else works on it, or the daemon has too much to do. */
export class Busy extends CubbyError {}
/** The box is paused: resume it first. */
export class Paused extends CubbyError {}
/** No space left. */
export class Full extends CubbyError {}
/** The daemon or the box could not read or write. */
export class InputOutput extends CubbyError {}
/** This daemon, this machine or this runtime cannot do that. */
export class Unsupported extends CubbyError {}
/** It took longer than allowed. */
export class Timeout extends CubbyError {}
/** A defect of the daemon. */
export class Internal extends CubbyError {}
/** What came back is not what a cubby daemon answers. */
export class Protocol extends CubbyError {}

/** No connection to the daemon, or it ended in the middle. `sent`: whether the daemon may have seen the request. */
export class Unreachable extends CubbyError {
  override code = 'UNREACHABLE';
  constructor(message: string, readonly sent: boolean) {
    super(message);
  }
}
/** The daemon's TLS certificate is not one to trust. */
export class BadCertificate extends Unreachable {
  override code = 'CERTIFICATE';
}

const CLASSES: Record<string, typeof CubbyError> = {
  INVALID: Invalid, UNAUTHORIZED: Unauthorized, DENIED: Denied, NOT_FOUND: NotFound, EXISTS: Exists, GONE: Gone,
  TOO_LARGE: TooLarge, LIMIT: Limit, INTERNAL: Internal, IO: InputOutput, UNSUPPORTED: Unsupported, PROTOCOL: Protocol,
  BUSY: Busy, TIMEOUT: Timeout, FULL: Full, PAUSED: Paused,
};

/** The error for an answer that is one. `files`: the request named a file. */
export function errorOf(status: number, error: { code?: string; message?: string }, header: (name: string) => string | null,
  files: boolean): CubbyError {
  const message = error.message ?? `the daemon answered with status ${status}`;
  let kind = CLASSES[error.code ?? ''] ?? (status >= 500 ? Internal : CubbyError);
  if (kind === NotFound && files && !message.startsWith('no box ')) kind = FileNotFound;
  const made = new kind(message);
  made.code = error.code ?? made.code;
  made.status = status || undefined;
  made.requestId = header('x-request-id') ?? undefined;
  const after = Number(header('retry-after') ?? NaN);
  if (!Number.isNaN(after)) made.retryAfter = after;
  return made;
}
