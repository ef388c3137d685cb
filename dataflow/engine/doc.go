// Package engine runs a planned graph: it fuses steps into tasks, connects the
// tasks by bounded queues, moves watermarks, barriers and ends, starts from the
// sinks and stops from the sources. It knows no component by name and reads no
// YAML.
//
// Start to read at [Graph] and [Run].
package engine
