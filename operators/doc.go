// Package operators holds the steps between sources and sinks: cast, contract,
// filter, project, rename, route, union, unnest, dedup, group, over, top and window. Each
// registers itself with package component and is planned before anything runs; none
// starts a goroutine, reads a clock or knows a client.
//
// A stateless operator ([FilterConfig], [ProjectConfig], [RouteConfig], [UnionConfig])
// is one file. A keyed one comes in two halves: the first stands before the exchange
// and encodes the key, the second owns a range of key groups and their state.
package operators
