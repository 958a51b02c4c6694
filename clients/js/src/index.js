export { Client } from "./client.js";
export { defaultBackoff, GiveUp, RetryAfter } from "./consume.js";
export {
  BadRequestError,
  BusyError,
  ConflictError,
  DamagedError,
  EmptyError,
  ForbiddenError,
  InternalError,
  ItemCancelledError,
  LeaseLostError,
  NoResultYetError,
  NotFoundError,
  NotLeasedError,
  PQError,
  SettledError,
  TooLargeError,
  UnavailableError,
  UnknownResultError,
} from "./errors.js";
