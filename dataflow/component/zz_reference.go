// Code generated from the comments of config structs. DO NOT EDIT.
// Renew with: go test . -run Reference -rewrite

package component

var fieldDocs = map[string]string{}
