/* Device code as plain data, beside a template of a cubin's header that ends where the data does. */
__asm__(".section .rodata\n"
        ".balign 32\n"
        ".globl carried_cubin\n"
        "carried_cubin: .incbin \"scale_sm_120a.cubin\"\n"
        ".balign 32\n"
        ".globl carried_fatbin\n"
        "carried_fatbin: .incbin \"scale.fatbin\"\n"
        ".balign 32\n"
        ".globl header_only\n"
        "header_only: .incbin \"scale_sm_120f.cubin\", 0, 64\n");
