/* SPDX-License-Identifier: Apache-2.0 */
/* lr_verbs.c - librdmacm and libibverbs by dlopen(3). */
#define _GNU_SOURCE
#include "lr_verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool resolve(void *library, const char *name, void *function, char *why, size_t whylen)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		snprintf(why, whylen, "%s is not in the RDMA library: %s", name, dlerror());
	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static void *open_library(const char *name, char *why, size_t whylen)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		snprintf(why, whylen, "cannot load %s: %s", name, dlerror());
	return library;
}

int lr_verbs_load(struct lr_verbs *v, char *why, size_t whylen)
{
	void *cm = open_library("librdmacm.so.1", why, whylen);
	void *verbs = cm ? open_library("libibverbs.so.1", why, whylen) : NULL;
	const struct {
		void *library;
		const char *name;
		void *function;
	} table[] = {
	    {cm, "rdma_create_event_channel", &v->create_event_channel},
	    {cm, "rdma_destroy_event_channel", &v->destroy_event_channel},
	    {cm, "rdma_create_id", &v->create_id},
	    {cm, "rdma_destroy_id", &v->destroy_id},
	    {cm, "rdma_bind_addr", &v->bind_addr},
	    {cm, "rdma_listen", &v->listen},
	    {cm, "rdma_resolve_addr", &v->resolve_addr},
	    {cm, "rdma_resolve_route", &v->resolve_route},
	    {cm, "rdma_connect", &v->connect},
	    {cm, "rdma_accept", &v->accept},
	    {cm, "rdma_reject", &v->reject},
	    {cm, "rdma_disconnect", &v->disconnect},
	    {cm, "rdma_create_qp", &v->create_qp},
	    {cm, "rdma_destroy_qp", &v->destroy_qp},
	    {cm, "rdma_get_cm_event", &v->get_cm_event},
	    {cm, "rdma_ack_cm_event", &v->ack_cm_event},
	    {cm, "rdma_set_option", &v->set_option},
	    {verbs, "ibv_query_device", &v->query_device},
	    {verbs, "ibv_alloc_pd", &v->alloc_pd},
	    {verbs, "ibv_dealloc_pd", &v->dealloc_pd},
	    {verbs, "ibv_reg_mr", &v->reg_mr},
	    {verbs, "ibv_dereg_mr", &v->dereg_mr},
	    {verbs, "ibv_create_comp_channel", &v->create_comp_channel},
	    {verbs, "ibv_destroy_comp_channel", &v->destroy_comp_channel},
	    {verbs, "ibv_create_cq", &v->create_cq},
	    {verbs, "ibv_destroy_cq", &v->destroy_cq},
	    {verbs, "ibv_get_cq_event", &v->get_cq_event},
	    {verbs, "ibv_ack_cq_events", &v->ack_cq_events},
	};

	if (!cm || !verbs)
		return -ENOENT;
	*(void **)(void *)&v->reg_dmabuf_mr = dlsym(verbs, "ibv_reg_dmabuf_mr");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!resolve(table[i].library, table[i].name, table[i].function, why, whylen))
			return -ENOENT;
	v->post_send = ibv_post_send;
	v->post_recv = ibv_post_recv;
	v->poll_cq = ibv_poll_cq;
	v->req_notify_cq = ibv_req_notify_cq;
	return 0;
}
