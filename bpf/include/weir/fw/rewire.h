/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The aliases of a translated state that was stored, or that another firewall has sent (restore.h).
 * As in the data path they are made before the record that is to have them, without its bucket's
 * lock, and taken back if it does not get them. It never chooses an address or a port.
 */
#ifndef WEIR_FW_REWIRE_H
#define WEIR_FW_REWIRE_H

#include <weir/fw/alias.h>
#include <weir/fw/request.h>
#include <weir/fw/scratch.h>

/* No slot has memory for it. */
#define WEIR_REWIRE_MEMORY (~0u)

/* Of both halves: an alias that no record has so far; 0: none. */
struct weir_rewire {
	__u32 alias[2];
};

static __always_inline bool weir_rewire_is_due(const struct weir_fw_sweep *r)
{
	return r->translated[0] | r->translated[1];
}

/* Whether a half is there, and translated. */
static __always_inline bool weir_rewire_has(const struct weir_fw_sweep *r, __u32 half)
{
	return r->translated[half] &&
	       r->control & (half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A);
}

/* The key of a half on the wire, by that inside. */
static __always_inline void weir_rewire_key(const struct weir_fw_sweep *r,
					    const struct weir_fw_packet *p,
					    struct weir_fw_packet *key, __u32 half)
{
	*key = *p;
	if (half) {
		weir_copy_address(key->src, r->mask[1]);
		key->src_port = r->wire_port[1];
	} else {
		weir_copy_address(key->dst, r->mask[0]);
		key->dst_port = r->wire_port[0];
	}
	key->hash = weir_fw_hash(key);
}

/* Makes the alias of a half. 0: it is not translated, or somebody has its key. */
__noinline __u32 weir_rewire_half(const struct weir_fw_sweep *r __arg_nonnull,
				  struct weir_fw_packet *p __arg_nonnull, __u32 half)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	bool is_counted;
	int alias;

	half &= 1;
	if (!scratch || !weir_rewire_has(r, half))
		return 0;
	weir_rewire_key(r, p, &scratch->wire, half);
	/* Mostly it is that of the record that is to be brought up to date. */
	if (!weir_key_is_free(&scratch->wire))
		return 0;
	p->direction = half ? WEIR_FW_OUT : WEIR_FW_IN;
	/* A rule that keeps the state as well counts it by the half. */
	is_counted = r->translator[half] != (r->half[half] & WEIR_FW_RULE_NONE);
	alias = weir_alias_make(p, &scratch->wire, 0, r->translator[half], is_counted);
	if (alias == -(WEIR_FW_REASON_MEMORY + 1))
		return WEIR_REWIRE_MEMORY;
	return alias > 0 ? alias : 0;
}

/* Takes back what no record has got. */
__noinline int weir_rewire_end(const struct weir_fw_sweep *r __arg_nonnull,
			       struct weir_fw_packet *p __arg_nonnull,
			       const struct weir_rewire *w __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 half;

	if (!scratch)
		return 0;
	for (half = 0; half < 2; half++) {
		if (!w->alias[half] || w->alias[half] == WEIR_REWIRE_MEMORY)
			continue;
		weir_rewire_key(r, p, &scratch->wire, half);
		weir_alias_take_back(w->alias[half], scratch->wire.hash, p->cpu);
	}
	return 0;
}

/* Why a record cannot be made that is to have them: WEIR_RESTORED_*; MADE: it can. */
static __always_inline int weir_rewire_lacks(const struct weir_fw_sweep *r,
					     const struct weir_rewire *w)
{
	__u32 half;

	for (half = 0; half < 2; half++) {
		if (w->alias[half] == WEIR_REWIRE_MEMORY)
			return WEIR_RESTORED_MEMORY;
		if (weir_rewire_has(r, half) && !w->alias[half])
			return WEIR_RESTORED_PRESENT;
	}
	return WEIR_RESTORED_MADE;
}

/* Gives a record the alias of a half: none lacks memory by now. Returns its control word. */
static __always_inline __u32 weir_rewire_attach(weir_line *s, __u32 control, __u32 half,
						struct weir_rewire *w)
{
	__u32 alias = w->alias[half];

	if (!alias)
		return control;
	w->alias[half] = 0;
	return weir_alias_attach(s, control, half, alias);
}

/* Whether a half of a record is translated as it is said, if both have it. */
static __always_inline bool weir_rewire_half_fits(const struct weir_fw_sweep *r,
						  const struct weir_fw_packet *p, weir_line *s,
						  __u32 half)
{
	__u32 flag = half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A, alias = 0;
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!scratch)
		return false;
	if (!(r->control & s->control & flag))
		return true;
	if (s->control & WEIR_STATE_TRANSLATED)
		alias = s->count[half];
	if (!alias || !r->translated[half])
		return !alias && !r->translated[half];
	weir_rewire_key(r, p, &scratch->wire, half);
	return !weir_is_other_family(weir_alias_at(alias)->control) &&
	       weir_alias_leads(alias, !half, r->mask[half][0], r->wire_port[half],
				scratch->wire.hash);
}

/* Whether a record is translated as it is said. */
__noinline int weir_rewire_fits(const struct weir_fw_sweep *r __arg_nonnull,
				const struct weir_fw_packet *p __arg_nonnull, __u32 slot)
{
	weir_line *s = weir_state_line(slot);

	if (!(s->control & WEIR_STATE_TRANSLATED) && !weir_rewire_is_due(r))
		return true;
	return weir_rewire_half_fits(r, p, s, 0) && weir_rewire_half_fits(r, p, s, 1);
}

#endif /* WEIR_FW_REWIRE_H */
