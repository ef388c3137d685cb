// Package std links the components that Frazil comes with. It is the only list
// of them, and it holds nothing else.
package std
