package http

import nethttp "net/http"

func (l *listener) openAPI(w nethttp.ResponseWriter) { w.WriteHeader(501) }
