/* What runs in a box for /v1/jupyter, /v1/nodejs and /v1/code: programs of ours, as texts with a NUL behind them. */
#ifndef CUBBY_FRONT_AIO_DRIVER_H
#define CUBBY_FRONT_AIO_DRIVER_H

extern const char aio_driver_python[], aio_driver_node[];

#endif
