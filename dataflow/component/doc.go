// Package component binds names in a pipeline file to typed components. A
// component registers itself once, from init, with a config struct, its
// defaults, a pure plan and a constructor; everything else (strict decoding,
// reference pages, JSON Schema, lint) is derived from that.
//
// It is not where pipelines are put together: see package pipelines. Start to
// read at [RegisterOperator] and [Decode].
package component
